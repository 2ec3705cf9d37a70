/*
 * debug_point.c
 *	  Named fault points, in test builds only. See debug_point.h.
 */
#include "postgres.h"

#ifdef AION_FAULTS

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"

#include "debug_point.h"

static const char *const debug_points[] = {
#include "debug_points.inc"
};

/* Holds until the file that says so is removed. Interrupts are taken. */
static void
debug_point_wait(const char *path)
{
	char		waiting[MAXPGPATH];
	struct stat st;
	int			fd;

	snprintf(waiting, sizeof(waiting), "%s.waiting", path);
	fd = open(waiting, O_CREAT | O_WRONLY, 0600);
	if (fd >= 0)
		close(fd);
	while (stat(waiting, &st) == 0)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
	}
}

void
debug_point(const char *name)
{
	char		path[MAXPGPATH];
	char		action[16] = "";
	bool		known = false;
	ssize_t		length;
	int			fd;

	for (int i = 0; i < lengthof(debug_points); i++)
		known |= strcmp(debug_points[i], name) == 0;
	Assert(known);

	/* the data directory is every server process's working directory */
	snprintf(path, sizeof(path), "aion_fault.%s", name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return;
	length = read(fd, action, sizeof(action) - 1);
	close(fd);
	/* of several processes that come by at once, the one that takes the file away acts */
	if (length <= 0 || unlink(path) != 0)
		return;

	if (strncmp(action, "crash", 5) == 0)
		kill(MyProcPid, SIGKILL);
	else if (strncmp(action, "error", 5) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("fault point \"%s\" reached", name)));
	else if (strncmp(action, "wait", 4) == 0)
		debug_point_wait(path);
}

#endif							/* AION_FAULTS */

/*
 * watermark.h
 *	  How the watermark of one stream moves.
 *
 * Pure arithmetic: who calls it when, the sources of a stream, and making the
 * outcome durable before anything relies on it are the scheduler's part.
 */
#ifndef AION_WATERMARK_H
#define AION_WATERMARK_H

#include "time/eventtime.h"

/* Value of idle_timeout_us and max_ahead_us for "off". */
#define WATERMARK_OFF	(-1)

typedef struct WatermarkConfig
{
	bool		manual;			/* only watermark_advance moves W */
	int64_t		delay_us;		/* how far W stays behind the greatest time */
	int64_t		idle_timeout_us;	/* WATERMARK_OFF: idle time doesn't move W */
	int64_t		max_ahead_us;	/* WATERMARK_OFF: no time is too far ahead */
} WatermarkConfig;

/* Always event_watermark <= watermark; both EVENT_TIME_NEVER at first. */
typedef struct WatermarkState
{
	EventTime	watermark;		/* W: no event before it is expected */
	EventTime	event_watermark;	/* W_e: what idle time didn't add */
} WatermarkState;

extern void watermark_init(WatermarkState *state);
extern bool watermark_observe(WatermarkState *state,
							  const WatermarkConfig *config,
							  EventTime max_event_time);
extern bool watermark_advance(WatermarkState *state, EventTime t);
extern bool watermark_reset(WatermarkState *state, EventTime t,
							EventTime floor);
extern bool watermark_idle(WatermarkState *state,
						   const WatermarkConfig *config,
						   int64_t last_activity_mono_us,
						   int64_t previous_mono_us, int64_t now_mono_us,
						   EventTime cap);
extern bool watermark_is_ahead(const WatermarkConfig *config, EventTime now,
							   EventTime t);

#endif							/* AION_WATERMARK_H */

# The extension as the catalogs have it: every object, its definition, owner, privileges, comment, dependencies, initial
# privileges, and what is dumped of its tables. Two installations of one version must answer the same, however they came about.
package Catalog;

use strict;
use warnings;

# Objects are named as pg_identify_object() does. "member" has the extension's own, "part" also what belongs to these: columns'
# defaults, indexes, constraints, rules, row types.
my $MEMBERS = q{
	WITH RECURSIVE member AS (
		SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
		 WHERE e.extname = 'aion' AND d.deptype = 'e'),
	part AS (
		SELECT classid, objid FROM member
		 UNION
		SELECT d.classid, d.objid FROM pg_depend d JOIN part p ON d.refclassid = p.classid AND d.refobjid = p.objid
		 WHERE d.deptype IN ('a', 'i') AND d.classid <> 'pg_foreign_table'::regclass)};

my @QUERIES = (
	q{SELECT e.extversion, e.extrelocatable, n.nspname, c.relation, c.condition
		FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
		LEFT JOIN LATERAL (SELECT r::regclass AS relation, w AS condition FROM unnest(e.extconfig, e.extcondition) u (r, w)) c ON true
	   WHERE e.extname = 'aion' ORDER BY c.relation::text},
	qq{$MEMBERS SELECT i.type, i.identity, obj_description(objid, classid::regclass::name) FROM member, pg_identify_object(classid, objid, 0) i ORDER BY 1, 2},
	qq{$MEMBERS SELECT i.type, i.identity FROM part, pg_identify_object(classid, objid, 0) i WHERE i.identity !~ 'pg_toast' ORDER BY 1, 2},
	qq{$MEMBERS SELECT p.oid::regprocedure, pg_get_functiondef(p.oid), p.probin, p.proacl, pg_get_userbyid(p.proowner)
		FROM member JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid ORDER BY p.oid::regprocedure::text},
	qq{$MEMBERS SELECT c.oid::regclass, c.relkind, c.relpersistence, c.reloptions, c.relacl, pg_get_userbyid(c.relowner), c.relrowsecurity, c.relispopulated,
			CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END,
			(SELECT array_agg(pg_get_indexdef(indexrelid) ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = c.oid),
			(SELECT array_agg(conname || ' ' || pg_get_constraintdef(oid) ORDER BY conname) FROM pg_constraint WHERE conrelid = c.oid),
			(SELECT (seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle) FROM pg_sequence WHERE seqrelid = c.oid)
		FROM member JOIN pg_class c ON classid = 'pg_class'::regclass AND objid = c.oid ORDER BY c.oid::regclass::text},
	qq{$MEMBERS SELECT c.oid::regclass, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
			a.attstorage, a.attcompression, a.attacl, a.attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
		FROM member JOIN pg_class c ON classid = 'pg_class'::regclass AND objid = c.oid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum ORDER BY c.oid::regclass::text, 2},
	q{SELECT nspname, nspacl, pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname ~ '^aion' ORDER BY 1},
	q{SELECT fdwname, fdwacl, fdwoptions, fdwhandler::regproc, fdwvalidator::regproc, srvname, srvacl, srvoptions
		FROM pg_foreign_data_wrapper w JOIN pg_foreign_server s ON s.srvfdw = w.oid WHERE fdwname = 'aion' ORDER BY 1, 6},
	qq{$MEMBERS SELECT t.oid::regtype, t.typtype, t.typacl, pg_get_userbyid(t.typowner) FROM part JOIN pg_type t ON classid = 'pg_type'::regclass AND objid = t.oid
	   WHERE t.typname !~ 'toast' ORDER BY t.oid::regtype::text},
	qq{$MEMBERS SELECT i.type, i.identity, r.type, r.identity, d.deptype, count(*)
		FROM part p JOIN pg_depend d ON d.classid = p.classid AND d.objid = p.objid,
			 pg_identify_object(d.classid, d.objid, 0) i, pg_identify_object(d.refclassid, d.refobjid, 0) r
	   WHERE i.identity !~ 'pg_toast' GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5},
	q{SELECT i.type, i.identity, p.privtype, p.initprivs FROM pg_init_privs p, pg_identify_object(p.classoid, p.objoid, p.objsubid) i WHERE i.identity ~ '^aion' ORDER BY 1, 2},
);

sub extension
{
	my ($node, $db) = @_;
	my $text = '';
	for my $sql (@QUERIES)
	{
		$text .= "-- $sql\n" . $node->safe_psql($db, $sql) . "\n";
	}
	return $text;
}

1;

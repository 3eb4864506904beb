--
-- Errors: what cannot be peeked at, and what is said then.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA errors_test;
SET search_path = errors_test, test, public;

CREATE TABLE t (id int PRIMARY KEY, a int, s text, p point, j jsonb);
INSERT INTO t SELECT i, i % 3, 's' || i FROM generate_series(1, 10) i;

-- Indexes of other access methods (42809)
CREATE INDEX t_hash ON t USING hash (a);
CREATE INDEX t_gist ON t USING gist (p);
CREATE INDEX t_gin ON t USING gin (j);
CREATE INDEX t_brin ON t USING brin (a);
SELECT i, error('t', quote_literal(i)) FROM unnest(ARRAY['t_hash', 't_gist', 't_gin', 't_brin']) i;

-- A TOAST table and its index (42809)
SELECT replace(error(format('SELECT * FROM peek_record(%L) AS r(a oid, b int, c bytea)', x)), c.oid::text, '<oid>')
	FROM pg_class c, LATERAL (VALUES (c.reltoastrelid::regclass::text), ('pg_toast.pg_toast_' || c.oid || '_index')) v(x) WHERE c.oid = 't'::regclass;

-- Partitioned tables and indexes (42809); a partition is a table
CREATE TABLE parts (id int PRIMARY KEY, a int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 (extra int, a int, id int NOT NULL);
ALTER TABLE parts_2 DROP COLUMN extra;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
CREATE INDEX parts_a ON parts (a);
INSERT INTO parts SELECT i, i % 3 FROM generate_series(1, 19) i;
SELECT error('parts', 'NULL');
SELECT error('parts', $$'parts'$$);
SELECT error('parts', $$'parts_pkey'$$);
SELECT error('parts', $$'parts_a'$$);
SELECT same('parts_1', 'NULL', 'ORDER BY id');
SELECT same('parts_2', $$'parts_2_a_idx', key => 2$$, 'WHERE a = 2 ORDER BY ctid');
-- with the row type of the parent, whose columns lie in another order (trap 6)
SELECT same($$SELECT * FROM peek(NULL::parts, 'parts_2_pkey', lower => 15)$$, 'SELECT id, a FROM parts_2 WHERE id >= 15 ORDER BY id');

-- An inheritance parent gives its own rows only: an index has no children
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (2);
SELECT same('SELECT * FROM peek(NULL::parent)', 'SELECT * FROM ONLY parent');

-- A foreign table (42809)
CREATE FOREIGN DATA WRAPPER regress_peek_dummy;
CREATE SERVER regress_peek_nowhere FOREIGN DATA WRAPPER regress_peek_dummy;
CREATE FOREIGN TABLE far (id int) SERVER regress_peek_nowhere;
SELECT error('far', 'NULL');

-- A view, a sequence, a composite type (42809)
CREATE VIEW v AS SELECT * FROM t;
CREATE SEQUENCE seq;
CREATE TYPE comp AS (id int);
SELECT error('v', 'NULL');
SELECT error('v', $$'v'$$);
SELECT error('t', $$'seq'$$);
SELECT error('t', $$'comp'$$);
SELECT error('seq', 'NULL');

-- No primary key: an error that lists the btree indexes, no others (42704)
CREATE TABLE nopk (a int, b int, p point);
SELECT error('nopk', 'NULL');
CREATE INDEX nopk_p ON nopk USING gist (p);
SELECT error('nopk', 'NULL');
CREATE INDEX nopk_a ON nopk (a);
CREATE UNIQUE INDEX "Nopk b" ON nopk (b);
SELECT error('nopk', 'NULL');
SELECT error('nopk', $$'nopk'$$);

-- An index that is not valid (55000)
CREATE TABLE dups (a int);
INSERT INTO dups VALUES (1), (1);
\set VERBOSITY sqlstate
CREATE UNIQUE INDEX CONCURRENTLY dups_a ON dups (a);
\set VERBOSITY default
SELECT indisvalid, indisready, indislive FROM pg_index WHERE indexrelid = 'dups_a'::regclass;
SELECT error('dups', $$'dups_a'$$);
-- not valid yet, being dropped: states that only show between two transactions of
-- CREATE or DROP INDEX CONCURRENTLY
UPDATE pg_index SET indisready = true WHERE indexrelid = 'dups_a'::regclass;
SELECT error('dups', $$'dups_a'$$);
UPDATE pg_index SET indislive = false WHERE indexrelid = 'dups_a'::regclass;
SELECT error('dups', $$'dups_a'$$);
UPDATE pg_index SET indislive = true WHERE indexrelid = 'dups_a'::regclass;
DELETE FROM dups WHERE ctid = '(0,2)';
REINDEX INDEX dups_a;
SELECT same('dups', $$'dups_a'$$, 'ORDER BY a');

-- An index that is newer than the snapshot and misses rows of it (55000)
CREATE TABLE hot (id int, a int) WITH (fillfactor = 50);
INSERT INTO hot VALUES (1, 1);
BEGIN;
UPDATE hot SET a = 2;
CREATE INDEX hot_a ON hot (a);
SELECT indcheckxmin FROM pg_index WHERE indexrelid = 'hot_a'::regclass;
SELECT error('hot', $$'hot_a'$$);
COMMIT;

-- An unpopulated materialized view (55000)
CREATE MATERIALIZED VIEW mv AS SELECT id FROM t WITH NO DATA;
CREATE UNIQUE INDEX mv_id ON mv (id);
SELECT error('mv', $$'mv_id'$$);
REFRESH MATERIALIZED VIEW mv;
SELECT same('mv', $$'mv_id'$$, 'ORDER BY id');

-- What is not there: no name, and an oid that is gone (42704), as after
-- REINDEX CONCURRENTLY under a view (trap 21a)
SELECT error('t', $$'nothing'$$);
SELECT error('t', '0');
SELECT error('t', '4294967295::oid');
CREATE INDEX t_a ON t (a);
CREATE VIEW by_oid AS SELECT id FROM peek(NULL::t, 't_a', key => 1);
CREATE VIEW by_name AS SELECT id FROM peek(NULL::t, 't_a'::text::regclass, key => 1);
SELECT 't_a'::regclass::oid AS old \gset
REINDEX INDEX CONCURRENTLY t_a;
SELECT replace(error('SELECT * FROM by_oid'), :'old', '<oid>');
SELECT id FROM by_name;
DROP VIEW by_oid, by_name;
DROP INDEX t_a;

-- A system column (0A000), a column that is not there (42703)
SELECT error($$SELECT * FROM peek_record('t', '{id,ctid}') AS r(a int, b tid)$$);
SELECT error($$SELECT * FROM peek_record('t', '{oid}') AS r(a oid)$$);
SELECT error('t', $$filter => 'tableoid = 1'$$);
SELECT error('t', $$order_by => 'ctid'$$);

-- Temporary tables: one's own is a table like others
CREATE TEMP TABLE temp (id int PRIMARY KEY);
INSERT INTO temp VALUES (2), (1);
SELECT same('temp', 'NULL', 'ORDER BY id');
-- also one that ends with the transaction
BEGIN;
CREATE TEMP TABLE gone (id int PRIMARY KEY) ON COMMIT DROP;
INSERT INTO gone VALUES (2), (1);
SELECT same('gone', 'NULL', 'ORDER BY id');
COMMIT;

-- Unlogged tables, system catalogs
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
INSERT INTO unlogged VALUES (2), (1);
SELECT same('unlogged', 'NULL', 'ORDER BY id');
SELECT same($$SELECT relkind, relname FROM peek(NULL::pg_class, 'pg_class_relname_nsp_index', key => 'pg_class')$$,
	$$SELECT relkind, relname FROM pg_class WHERE relname = 'pg_class'$$);
SELECT same($$SELECT typname FROM peek(NULL::pg_type, key => 23)$$, $$SELECT typname FROM pg_type WHERE oid = 23$$);

-- DDL meanwhile: an index made, and a table emptied, in this transaction
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (5, 5), (4, 6);
CREATE INDEX t_new ON t (a DESC);
SELECT same('t', $$'t_new'$$, 'ORDER BY a DESC');
ROLLBACK;
-- locks stay to the end of the transaction, as a query's
BEGIN;
SELECT count(*) FROM peek(NULL::t);
SELECT relation::regclass, mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN ('t'::regclass, 't_pkey'::regclass) ORDER BY 1;
COMMIT;
-- An error leaves nothing open: relations can be dropped at once
SELECT left(error('t', $$filter => 'nothing'$$), 5);
SELECT left(error('t', $$filter => '1 / (id - 5) = 0', options => '{"stash_threshold": 0}'$$), 5);
SELECT left(error('t', $$'t_hash'$$), 5);
SET client_min_messages = warning;
DROP TABLE t CASCADE;
DROP FOREIGN DATA WRAPPER regress_peek_dummy CASCADE;
DROP SCHEMA errors_test CASCADE;

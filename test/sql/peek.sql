--
-- The tour: what peek and peek_record give, and where they may be called.
--
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set helpers :srcdir '/helpers.sql'
\i :helpers
\set ECHO all
CREATE SCHEMA peek_test;
SET search_path = peek_test, test, public;

CREATE TABLE orders (
	id int PRIMARY KEY,
	customer int NOT NULL,
	placed date,
	total numeric(10,2),
	note text
);
INSERT INTO orders
	SELECT i, i % 10, date '2024-01-01' + i % 7, i * 1.25, 'order ' || i
	FROM generate_series(1, 100) i;
CREATE INDEX orders_customer ON orders (customer, id);
CREATE INDEX orders_placed ON orders (placed DESC, total);

-- The tour: point, list, range, filter, order, page, backward, columns
SELECT * FROM peek(NULL::orders, 'orders_customer', key => 4, row_limit => 2);
SELECT * FROM peek(NULL::orders, 'orders_customer', key => ROW(4, 94));
SELECT * FROM peek(NULL::orders, 'orders_customer', keys => ARRAY[ROW(4, 94), ROW(3, 3), ROW(4, 94)]);
SELECT * FROM peek(NULL::orders, lower => 10, upper => 13, bounds => '[)');
SELECT * FROM peek(NULL::orders, 'orders_customer', key => 5, lower => 80);
SELECT * FROM peek(NULL::orders, filter => 'total > $1 AND customer = $2', args => '{110,9}');
SELECT * FROM peek(NULL::orders, order_by => 'total DESC', row_limit => 2);
SELECT * FROM peek(NULL::orders, row_limit => 2, row_offset => 50);
SELECT * FROM peek(NULL::orders, row_limit => 2, backward => true);
SELECT * FROM peek_record('orders_customer', '{note,id}', key => 1, row_limit => 2) AS r(a text, b int);

-- The arrangement: an index, a table, a schema-qualified name, NULL and none at all;
-- the last three mean the primary key (design 3.1)
SELECT same('orders', $$'orders_customer'$$, 'ORDER BY customer, id');
SELECT same('orders', $$'orders'$$, 'ORDER BY id');
SELECT same('orders', $$'peek_test.orders'::regclass$$, 'ORDER BY id');
SELECT same('orders', $$NULL$$, 'ORDER BY id');
SELECT same('SELECT * FROM peek(NULL::orders)', 'SELECT * FROM orders ORDER BY id');
SELECT same('orders', $$'orders_customer'::regclass::oid$$, 'ORDER BY customer, id');

-- A deferrable primary key is one as well
CREATE TABLE late_key (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED);
INSERT INTO late_key SELECT i FROM generate_series(3, 1, -1) i;
SELECT same('SELECT * FROM peek(NULL::late_key)', 'SELECT * FROM late_key ORDER BY id');

-- An index of another table than the rowtype's: attributes are found by name
CREATE TABLE archive (note text, id int, extra int, customer int NOT NULL, placed date, total numeric(10,2));
CREATE INDEX archive_id ON archive (id);
INSERT INTO archive SELECT note, id, 1, customer, placed, total FROM orders;
SELECT same($$SELECT * FROM peek(NULL::orders, 'archive_id')$$, 'SELECT * FROM orders ORDER BY id');

-- A materialized view
CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(total) AS s FROM orders GROUP BY 1;
CREATE UNIQUE INDEX totals_customer ON totals (customer);
SELECT same('totals', $$'totals_customer'$$, 'ORDER BY customer');
SELECT error('totals', $$'totals'$$);

-- A rowtype value that is not NULL: only its type counts
SELECT same($$SELECT p.* FROM orders o, peek(o, 'orders_customer', key => ROW(o.customer, o.id)) p ORDER BY id$$,
	'SELECT * FROM orders ORDER BY id');

-- Each parameter of the request as NULL: key, keys, lower and upper match
-- nothing; the others mean their default
SELECT count(*) FROM peek(NULL::orders, key => NULL);
SELECT count(*) FROM peek(NULL::orders, key => NULL::int);
SELECT count(*) FROM peek(NULL::orders, keys => NULL);
SELECT count(*) FROM peek(NULL::orders, keys => NULL::int[]);
SELECT count(*) FROM peek(NULL::orders, lower => NULL);
SELECT count(*) FROM peek(NULL::orders, upper => NULL);
SELECT count(*) FROM peek(NULL::orders, lower => 90, bounds => NULL);
SELECT count(*) FROM peek(NULL::orders, filter => NULL);
SELECT count(*) FROM peek(NULL::orders, filter => NULL, args => NULL);
SELECT count(*) FROM peek(NULL::orders, order_by => NULL);
SELECT count(*) FROM peek(NULL::orders, row_limit => NULL);
SELECT count(*) FROM peek(NULL::orders, row_offset => NULL);
SELECT same('orders', 'NULL, backward => NULL', 'ORDER BY id');
SELECT count(*) FROM peek(NULL::orders, options => NULL);

-- key, keys, lower and upper as ROW() are not given
SELECT count(*) FROM peek(NULL::orders, key => ROW(), keys => ROW(), lower => ROW(), upper => ROW());

-- Everything by position
SELECT id FROM peek(NULL::orders, 'orders_customer', 3, ROW(), 20, 60, '(]', 'total < $1', '{70}', 'id DESC', 2, 1, false, '{}');
SELECT * FROM peek_record('orders_customer', '{id}', 3, ROW(), 20, 60, '(]', 'total < $1', '{70}', 'id DESC', 2, 1, false, '{}') AS r(id int);

-- All of it together is a conjunction, then an order, then a page
SELECT same('orders', $$'orders_customer', key => 3, lower => 20, upper => 90, bounds => '()',
		filter => 'placed > $1', args => '{2024-01-02}', order_by => 'note DESC', row_limit => 3, row_offset => 1$$,
	$$WHERE customer = 3 AND id > 20 AND id < 90 AND placed > '2024-01-02' ORDER BY note DESC LIMIT 3 OFFSET 1$$);

-- A projection: any composite type whose attributes name columns of the same
-- type and typmod, in any order
CREATE TYPE brief AS (total numeric(10,2), id int);
SELECT * FROM peek(NULL::brief, 'orders_customer', key => 7, row_limit => 2);
SELECT error('brief', 'NULL');
CREATE TYPE wrong_name AS (id int, what text);
SELECT error('wrong_name', $$'orders'$$);
CREATE TYPE wrong_type AS (id bigint);
SELECT error('wrong_type', $$'orders'$$);
CREATE TYPE wrong_typmod AS (total numeric);
SELECT error('wrong_typmod', $$'orders'$$);
CREATE TYPE system_column AS (id int, ctid tid);
SELECT error($$SELECT * FROM peek(NULL::system_column, 'orders')$$);
SELECT error($$SELECT * FROM peek(NULL::int, 'orders')$$);
SELECT error($$SELECT * FROM peek(NULL, 'orders')$$);
SELECT error($$SELECT * FROM peek(ROW(1), 'orders') AS r(id int)$$);

-- A composite type with a dropped attribute: NULL there, not counted
CREATE TYPE dropped AS (id int, gone int, note text);
ALTER TYPE dropped DROP ATTRIBUTE gone;
SELECT * FROM peek(NULL::dropped, 'orders', key => 7);
SELECT peek(NULL::dropped, 'orders', key => 7);

-- peek_record: all columns, some, in any order, twice
SELECT same($$SELECT * FROM peek_record('orders') AS r(id int, customer int, placed date, total numeric, note text)$$,
	'SELECT * FROM orders ORDER BY id');
SELECT same($$SELECT * FROM peek_record('orders', NULL) AS r(id int, customer int, placed date, total numeric(10,2), note text)$$,
	'SELECT * FROM orders ORDER BY id');
SELECT same($$SELECT * FROM peek_record('orders_placed', '{note,placed}') AS r(n text, p date)$$,
	'SELECT note, placed FROM orders ORDER BY placed DESC, total');
SELECT * FROM peek_record('orders', '{id,id,customer,id}', key => 12) AS r(a int, b int, c int, d int);

-- peek_record: what does not fit the column definition list
SELECT error($$SELECT * FROM peek_record('orders', '{id,note}') AS r(id int)$$);
SELECT error($$SELECT * FROM peek_record('orders', '{id}') AS r(id int, note text)$$);
SELECT error($$SELECT * FROM peek_record('orders', '{id,note}') AS r(id int, note int)$$);
SELECT error($$SELECT * FROM peek_record('orders', '{total}') AS r(total numeric(10,3))$$);
SELECT error($$SELECT * FROM peek_record('orders', '{}') AS r(id int)$$);
SELECT error($$SELECT * FROM peek_record('orders', '{id,nothing}') AS r(id int, n int)$$);
SELECT error($$SELECT * FROM peek_record('orders', '{id,NULL}') AS r(id int, n int)$$);
SELECT error($$SELECT * FROM peek_record('orders', '{ID}') AS r(id int)$$);
SELECT error($$SELECT * FROM peek_record('orders', '{xmin}') AS r(x xid)$$);
SELECT error($$SELECT * FROM peek_record('orders', '{tableoid}') AS r(x oid)$$);
SELECT error($$SELECT * FROM peek_record(NULL) AS r(id int)$$);

-- peek_record without a column definition list has no shape: 0A000
SELECT error($$SELECT peek_record('orders')$$);
SELECT error($$SELECT * FROM peek_record('orders')$$);

-- In a select list: row by row, as a value, expanded, beside another set
SELECT peek(NULL::brief, 'orders', lower => 99);
SELECT (peek(NULL::brief, 'orders', lower => 99)).*;
SELECT generate_series(1, 3), peek(NULL::brief, 'orders', lower => 99);
SELECT peek(NULL::brief, 'orders') LIMIT 1;

-- Where no set can go
SELECT error('SELECT 1 WHERE (peek(NULL::orders)).id = 1');
SELECT error('SELECT CASE WHEN true THEN peek(NULL::orders) END');

-- In FROM: WITH ORDINALITY, ROWS FROM, joined
SELECT id, ordinality FROM peek(NULL::orders, lower => 98) WITH ORDINALITY;
SELECT a.id, r.id FROM ROWS FROM (peek(NULL::brief, 'orders', upper => 2), peek(NULL::brief, 'orders', upper => 3)) AS a(t, id, total, rid), LATERAL (SELECT a.rid AS id) r;
SELECT same($$SELECT a.id FROM peek(NULL::orders) a JOIN peek(NULL::orders, 'orders_customer') b USING (id) ORDER BY id$$,
	'SELECT id FROM orders ORDER BY id');

-- A CTE used twice is walked once
SELECT walk($$WITH p AS MATERIALIZED (SELECT * FROM peek(NULL::orders, lower => 91))
	SELECT FROM p a JOIN p b USING (id)$$);

-- LATERAL: a key for each row
SELECT same($$SELECT c, p.* FROM generate_series(1, 12) c, peek(NULL::orders, 'orders_customer', key => c) p$$,
	$$SELECT c, o.* FROM generate_series(1, 12) c JOIN orders o ON customer = c ORDER BY customer, id$$);

-- Early ends (trap 13): LIMIT, EXISTS, LATERAL under LIMIT, a cursor closed
-- after one row; from memory and from a spool, nothing is leaked or warned of
SELECT id FROM peek(NULL::orders) LIMIT 1;
SELECT (peek(NULL::brief, 'orders')).id LIMIT 1;
SELECT EXISTS (SELECT FROM peek(NULL::orders)), EXISTS (SELECT FROM peek(NULL::orders, key => 0));
SELECT EXISTS (SELECT peek(NULL::orders));
SELECT c, p.id FROM generate_series(1, 9) c, LATERAL (SELECT * FROM peek(NULL::orders, 'orders_customer', key => c) LIMIT 1) p LIMIT 2;
SELECT c, (SELECT (peek(NULL::orders, 'orders_customer', key => c)).id LIMIT 1) FROM generate_series(1, 2) c;
SET peekstash.stash_threshold = 0;
SET peekstash.stash_batch_size = 50;
SELECT id FROM peek(NULL::orders) LIMIT 1;
SELECT (peek(NULL::brief, 'orders')).id LIMIT 1;
SELECT EXISTS (SELECT peek(NULL::orders));
SELECT c, (SELECT (peek(NULL::orders, 'orders_customer', key => c)).id LIMIT 1) FROM generate_series(1, 2) c;
BEGIN;
DECLARE spooled CURSOR FOR SELECT (peek(NULL::brief, 'orders')).*;
FETCH 2 FROM spooled;
CLOSE spooled;
COMMIT;
BEGIN;
DECLARE spooled CURSOR FOR SELECT (peek(NULL::brief, 'orders')).*;
FETCH 1 FROM spooled;
COMMIT;
RESET peekstash.stash_threshold;
RESET peekstash.stash_batch_size;

-- An aborted subtransaction takes an answer that was half read with it
BEGIN;
SAVEPOINT s;
DECLARE lost CURSOR FOR SELECT (peek(NULL::brief, 'orders', options => '{"stash_threshold": 0}')).*;
FETCH 1 FROM lost;
ROLLBACK TO s;
FETCH 1 FROM lost;
ROLLBACK;

-- A cursor sees the table as it was when it was opened: the answer is made by
-- the first FETCH, under the cursor's snapshot
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, total FROM peek(NULL::orders, lower => 98);
UPDATE orders SET total = 0 WHERE id = 99;
DELETE FROM orders WHERE id = 100;
FETCH ALL FROM c;
FETCH BACKWARD 1 FROM c;
SELECT id, total FROM peek(NULL::orders, lower => 98);
ROLLBACK;

-- A WITH HOLD cursor outlives its transaction
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT id FROM peek(NULL::orders, lower => 98);
FETCH 1 FROM held;
COMMIT;
FETCH ALL FROM held;
CLOSE held;

-- A peek sees what its own transaction has written
BEGIN;
INSERT INTO orders VALUES (101, 1, '2024-02-01', 1, 'new');
SELECT id, note FROM peek(NULL::orders, 'orders_customer', key => 1, lower => 90);
ROLLBACK;

-- A prepared statement, also after the table has changed
PREPARE p (int) AS SELECT * FROM peek(NULL::orders, key => $1);
EXECUTE p (5);
ALTER TABLE orders ADD COLUMN added int DEFAULT 17;
EXECUTE p (5);
PREPARE q (int) AS SELECT * FROM peek(NULL::orders, key => $1);
EXECUTE q (5);
ALTER TABLE orders DROP COLUMN placed;
-- as with any function that returns a table's row type
EXECUTE q (5);
PREPARE r (int) AS SELECT id, total FROM peek(NULL::orders, key => $1);
EXECUTE r (5);
ALTER TABLE orders ALTER COLUMN note TYPE varchar(20), DROP COLUMN added;
EXECUTE r (5);
DEALLOCATE ALL;

-- Untyped parameters: filter with args takes them, "any" needs a cast
PREPARE p AS SELECT id FROM peek(NULL::orders, 'orders_customer', filter => 'customer = $1 AND id > $2', args => ARRAY[$1, $2]);
EXECUTE p ('3', '80');
DEALLOCATE p;
PREPARE p AS SELECT id FROM peek(NULL::orders, key => $1);
PREPARE p AS SELECT id FROM peek(NULL::orders, key => $1::int);
EXECUTE p (3);
DEALLOCATE p;

-- A view
CREATE VIEW late AS SELECT id, note FROM peek(NULL::orders, 'orders_customer', key => 9) WHERE id > 80;
SELECT * FROM late;

-- A PL/pgSQL loop that is left early, and one that catches errors
DO $$
DECLARE
	n int := 0;
BEGIN
	FOR i IN 1 .. 20 LOOP
		PERFORM FROM peek(NULL::orders) LIMIT 1;
		BEGIN
			PERFORM FROM peek(NULL::orders, options => '{"row_iteration_limit": 5}');
		EXCEPTION WHEN configuration_limit_exceeded THEN
			n := n + 1;
		END;
	END LOOP;
	RAISE NOTICE '% errors caught', n;
END $$;

-- A read-only transaction, and every isolation level; no transaction id is
-- taken (trap 17)
BEGIN READ ONLY;
SELECT count(*) FROM peek(NULL::orders, options => '{"stash_threshold": 0}');
SELECT pg_current_xact_id_if_assigned();
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM peek(NULL::orders, options => '{"stash_threshold": 0}');
COMMIT;

-- An empty table
CREATE TABLE empty (id int PRIMARY KEY);
SELECT count(*) FROM peek(NULL::empty);
SELECT count(*) FROM peek(NULL::empty, key => 1);
SELECT count(*) FROM peek(NULL::empty, order_by => 'id', row_limit => 1);

SET client_min_messages = warning;
DROP SCHEMA peek_test CASCADE;

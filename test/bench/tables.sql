/*
 * tables.sql
 *		The tables of the bench, of the demo's packages.
 *
 * The sample is the same on every machine, and so are its 1969 rows here, five
 * hundred times over under new numbers.  Equal packages are 1969 rows apart,
 * further than a batch reaches, or the compressor's window: they compress no
 * better than one package index does.
 */

SET client_min_messages = warning;
SET maintenance_work_mem = '256MB';

CREATE EXTENSION peekstash;

/* About 125 bytes a row, in the order of the key. */
CREATE TABLE rows AS
SELECT row_number() OVER (ORDER BY copy, name) AS id, packages.*
FROM generate_series(1, 508) AS copy, packages
LIMIT 1000000;

ALTER TABLE rows ADD PRIMARY KEY (id);

/* An order that has nothing to do with the table's. */
CREATE INDEX rows_scattered ON rows ((hashint8(id)));

/* About 1 kB a row, 1 GB in all: thirteen packages in one. */
CREATE UNLOGGED TABLE wide AS
SELECT r.id, p.texts
FROM rows AS r
JOIN (SELECT n, string_agg(packages::text, E'\n' ORDER BY shift)
		FROM (SELECT row_number() OVER (ORDER BY name) - 1, packages
				FROM packages) AS numbered (number, packages),
			generate_series(0, 12) AS shift,
			LATERAL (SELECT (number + shift) % 1969) AS x (n)
		GROUP BY n) AS p (n, texts) ON p.n = r.id * 13 % 1969
ORDER BY r.id;
ALTER TABLE wide ADD PRIMARY KEY (id);

VACUUM (FREEZE, ANALYZE) rows, wide;
CHECKPOINT;

/*
 * many.sql
 *		The table of walks in the background, of the rows of table "rows".
 *
 * Narrow, so that five million rows, their index and an answer with all of them
 * are in shared buffers at once.
 */

SET client_min_messages = warning;
SET maintenance_work_mem = '256MB';

CREATE UNLOGGED TABLE many
(
	id			bigint NOT NULL,
	name		text COLLATE "C" NOT NULL,
	version		text NOT NULL,
	section		text COLLATE "C" NOT NULL
);

/* In the order of the key, copy after copy. */
DO $$
BEGIN
	FOR copy IN 0..4 LOOP
		INSERT INTO many
		SELECT copy * 1000000 + id, name, version, section FROM rows ORDER BY id;
	END LOOP;
END
$$;

ALTER TABLE many ADD PRIMARY KEY (id);
VACUUM (FREEZE, ANALYZE) many;
CHECKPOINT;

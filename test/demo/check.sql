/*
 * check.sql
 *		Compares the answer of a peek with that of plain SQL, for tour.sql.
 *
 * Entry: the two queries are in the files by_peek and by_sql of the folder
 * :notes; :answer names the answer; :keys lists the columns that the peek's
 * order is made of.
 */
\set by_peek `cat :'notes'/by_peek`
\set by_sql `cat :'notes'/by_sql`

INSERT INTO answers
SELECT :'answer', peek.*, plain.*
FROM pg_temp.digest(:'by_peek', :'keys') AS peek,
	pg_temp.digest(:'by_sql', :'keys') AS plain;

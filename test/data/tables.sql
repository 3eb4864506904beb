/*
 * tables.sql
 *		The tables of the demo and of the tests: Debian's package index.
 *
 * Columns come in the order of packages.tsv and edges.tsv.  What is compared
 * as a name has collation "C": Debian sorts names by bytes, and the same
 * query gives the same rows on a machine of any locale.
 */

CREATE TABLE packages
(
	name			text COLLATE "C" NOT NULL,
	version			text NOT NULL,
	section			text COLLATE "C" NOT NULL,
	priority		text COLLATE "C" NOT NULL,
	architecture	text COLLATE "C" NOT NULL,
	multi_arch		text COLLATE "C",	-- same, foreign, allowed; often NULL
	source			text COLLATE "C",	-- NULL: named as the package
	size			bigint NOT NULL,	-- bytes to download
	installed_size	bigint,				-- kB on disk; sometimes NULL
	maintainer		text,
	homepage		text,
	description		text
);

/*
 * "Depends: a (>= 1), b | c" in package p is three edges:
 * (p, Depends, 1, 1, a, >=, 1), (p, Depends, 2, 1, b), (p, Depends, 2, 2, c).
 */
CREATE TABLE edges
(
	package			text COLLATE "C" NOT NULL,
	relation		text COLLATE "C" NOT NULL,
	clause			integer NOT NULL,	-- all clauses are to be met,
	choice			integer NOT NULL,	-- each by any of its choices
	target			text COLLATE "C" NOT NULL,
	op				text COLLATE "C",	-- <<, <=, =, >=, >>; NULL: any version
	version			text
);

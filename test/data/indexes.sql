/*
 * indexes.sql
 *		Arrangements of packages and edges, one of each kind that matters.
 */

/* unique, one column */
ALTER TABLE packages ADD CONSTRAINT packages_pkey PRIMARY KEY (name);

/* few leading values, then descending, NULLs last though descending */
CREATE INDEX packages_section_installed_size
	ON packages (section, installed_size DESC NULLS LAST);

/* one number, equal values now and then */
CREATE INDEX packages_size ON packages (size);

/* mostly NULL in front, directions mixed */
CREATE INDEX packages_multi_arch_size
	ON packages (multi_arch NULLS FIRST, size DESC);

/* an expression: all that is built from one source */
CREATE INDEX packages_source ON packages ((coalesce(source, name)), name);

/* long runs of equal keys, in both directions of the graph */
CREATE INDEX edges_package_relation ON edges (package, relation);
CREATE INDEX edges_target_relation_package
	ON edges (target, relation, package);

/* nearly nothing but equal keys, most of them NULL */
CREATE INDEX edges_op_relation ON edges (op DESC, relation);

/* part of the table: what breaks if the target is too new */
CREATE INDEX edges_upper_bounded ON edges (target, package)
	WHERE op IN ('<<', '<=', '=');

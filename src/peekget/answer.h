/*-------------------------------------------------------------------------
 *
 * answer.h
 *	  The answer: submitted, waited for, described, released.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/answer.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "peekget/link.h"

extern char *make_handle(void);
extern int	answer_find_functions(Link *link, Answer *answer);
extern int	answer_submit(Link *link, Answer *answer);
extern int	answer_wait(Link *link, Answer *answer);
extern int	answer_describe(Link *link, Answer *answer);
extern int	answer_is_gone(Link *link, const PGresult *error);
extern char *answer_touch_statement(Answer *answer);
extern void answer_release(Answer *answer, const char *handle, double seconds);
extern char *quote_name(const char *name);

#endif							/* ANSWER_H */

/*-------------------------------------------------------------------------
 *
 * link.h
 *	  A connection that comes back, and statements over it.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/link.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LINK_H
#define LINK_H

#include <poll.h>

#include "peekget/peekget.h"

/*
 *		DOWN --> CONNECTING --> READY <--> BUSY
 *		  ^----------'------------'---------'		whatever fails
 */
typedef enum LinkState
{
	LINK_DOWN,
	LINK_CONNECTING,
	LINK_READY,
	LINK_BUSY
} LinkState;

struct Chunk;

typedef struct Link
{
	LinkState	state;
	PGconn	   *conn;
	PostgresPollingStatusType polling;
	double		deadline;		/* of the attempt to connect */
	double		not_before;		/* of the next attempt */
	double		delay;			/* after the next failure */

	/* while it is BUSY with a page; fetch.c */
	struct Chunk *chunk;		/* NULL: with something else */
	bool		in_copy;
	bool		stalled;		/* has rows that may not be taken yet */
	int64		page_rows;		/* rows received */
	int64		page_messages;
	int64		page_bytes;
	PGresult   *error;
	bool		has_tag;
	int64		tag_rows;		/* rows that the server says it sent */
} Link;

/* What became of a statement. */
typedef enum Reply
{
	REPLY_OK,
	REPLY_ERROR,				/* the result is the server's error */
	REPLY_STOP					/* told already; the status says why */
} Reply;

/* Called every now and then while something is waited for. */
extern void (*link_tick) (void);

/* The status of REPLY_STOP. */
extern int	link_status;

/* A server has told of a crash. */
extern bool link_saw_crash;

extern bool link_start(Link *link);
extern void link_advance(Link *link);
extern short link_events(Link *link);
extern void link_close(Link *link);
extern void link_succeeded(Link *link);
extern bool link_failed(Link *link, const char *why);
extern Reply link_query(Link *link, const char *sql, int nparams,
						const char *const *params, PGresult **result);
extern bool link_try_query(Link *link, const char *sql, double seconds,
						   PGresult **result);
extern void link_cancel(Link *link);
extern bool is_connection_loss(const PGresult *result);
extern bool is_sqlstate(const PGresult *result, const char *prefix);
extern char *server_message(const PGresult *result);

#endif							/* LINK_H */

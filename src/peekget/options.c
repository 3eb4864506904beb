/*-------------------------------------------------------------------------
 *
 * options.c
 *	  The command line of peekget.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/options.c
 *
 *-------------------------------------------------------------------------
 */
#include "peekget/peekget.h"

#include <limits.h>

#include "getopt_long.h"

#include "peekget/output.h"

#define MAX_JOBS 64
#define MAX_PAGE_BYTES (64 * 1024 * 1024)

/* Options that have no letter. */
enum
{
	OPTION_QUERY = 1000,
	OPTION_ARG,
	OPTION_INDEX,
	OPTION_FILTER,
	OPTION_COLUMNS,
	OPTION_BACKWARD,
	OPTION_LIMIT,
	OPTION_HANDLE,
	OPTION_FORMAT,
	OPTION_HEADER,
	OPTION_PAGE_BYTES,
	OPTION_KEEP,
	OPTION_TTL,
	OPTION_LABEL,
	OPTION_RESUME,
	OPTION_FORCE,
	OPTION_VERIFY,
	OPTION_RETRY,
	OPTION_CHECKPOINT,
	OPTION_QUIET,
	OPTION_HELP
};

static const struct option long_options[] = {
	{"host", required_argument, NULL, 'h'},
	{"port", required_argument, NULL, 'p'},
	{"username", required_argument, NULL, 'U'},
	{"dbname", required_argument, NULL, 'd'},
	{"no-password", no_argument, NULL, 'w'},
	{"password", no_argument, NULL, 'W'},
	{"output", required_argument, NULL, 'o'},
	{"jobs", required_argument, NULL, 'j'},
	{"query", required_argument, NULL, OPTION_QUERY},
	{"arg", required_argument, NULL, OPTION_ARG},
	{"index", required_argument, NULL, OPTION_INDEX},
	{"filter", required_argument, NULL, OPTION_FILTER},
	{"columns", required_argument, NULL, OPTION_COLUMNS},
	{"backward", no_argument, NULL, OPTION_BACKWARD},
	{"limit", required_argument, NULL, OPTION_LIMIT},
	{"handle", required_argument, NULL, OPTION_HANDLE},
	{"format", required_argument, NULL, OPTION_FORMAT},
	{"header", no_argument, NULL, OPTION_HEADER},
	{"page-bytes", required_argument, NULL, OPTION_PAGE_BYTES},
	{"keep", no_argument, NULL, OPTION_KEEP},
	{"ttl", required_argument, NULL, OPTION_TTL},
	{"label", required_argument, NULL, OPTION_LABEL},
	{"resume", no_argument, NULL, OPTION_RESUME},
	{"force", no_argument, NULL, OPTION_FORCE},
	{"verify", no_argument, NULL, OPTION_VERIFY},
	{"retry", required_argument, NULL, OPTION_RETRY},
	{"checkpoint", required_argument, NULL, OPTION_CHECKPOINT},
	{"quiet", no_argument, NULL, OPTION_QUIET},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, OPTION_HELP},
	{NULL, 0, NULL, 0}
};

static const char *const format_names[] = {"text", "csv", "binary", "jsonl"};

void
words_add(Words *words, const char *name, const char *value)
{
	words->names = pg_realloc(words->names,
							  sizeof(char *) * (words->count + 1));
	words->values = pg_realloc(words->values,
							   sizeof(char *) * (words->count + 1));
	words->names[words->count] = pg_strdup(name);
	words->values[words->count] = pg_strdup(value);
	words->count++;
}

/* The last value of that name, or NULL. */
const char *
words_find(const Words *words, const char *name)
{
	for (int i = words->count - 1; i >= 0; i--)
	{
		if (strcmp(words->names[i], name) == 0)
			return words->values[i];
	}
	return NULL;
}

bool
words_equal(const Words *a, const Words *b)
{
	if (a->count != b->count)
		return false;
	for (int i = 0; i < a->count; i++)
	{
		if (strcmp(a->names[i], b->names[i]) != 0 ||
			strcmp(a->values[i], b->values[i]) != 0)
			return false;
	}
	return true;
}

const char *
format_name(Format format)
{
	return format_names[format];
}

/* -1 if there is none of that name */
int
format_by_name(const char *name)
{
	for (int i = 0; i < (int) lengthof(format_names); i++)
	{
		if (strcmp(format_names[i], name) == 0)
			return i;
	}
	return -1;
}

static void
help(void)
{
	printf("peekget fetches an answer of peekstash, over several connections, and picks\n"
		   "up where it broke off.\n"
		   "\n"
		   "Usage:\n"
		   "  peekget [OPTION]... --index NAME | --query SQL | --handle UUID [DBNAME [USER]]\n"
		   "  peekget [OPTION]... --resume -o FILE [DBNAME [USER]]\n"
		   "\n"
		   "What to fetch:\n"
		   "  --query SQL         the rows of a SELECT\n"
		   "  --index NAME        the rows that an index (or a table's primary key) leads to\n"
		   "  --handle UUID       an answer that is there already\n"
		   "  --arg VALUE         value of $1, then of $2, ... in the query or filter\n"
		   "  --filter EXPR       with --index: a condition over the table's columns\n"
		   "  --columns A,B       with --index: these columns only\n"
		   "  --backward          with --index: in the other direction\n"
		   "  --limit N           with --index: at most so many rows\n"
		   "\n"
		   "How to keep it on the server:\n"
		   "  --ttl TIME          life of the answer, like 2h (default: the server's)\n"
		   "  --label TEXT        a note for people\n"
		   "  --keep              do not release the answer at the end\n"
		   "\n"
		   "Where and how to write it:\n"
		   "  -o, --output FILE   write to FILE (default: standard output)\n"
		   "  --format FORMAT     text, csv, binary (as COPY writes them) or jsonl\n"
		   "                      (default: text)\n"
		   "  --header            csv and text: a line of column names first\n"
		   "  --resume            go on with FILE where it broke off\n"
		   "  --verify            with --resume: read all of FILE, however large\n"
		   "  --force             start anew although FILE is unfinished\n"
		   "\n"
		   "How to fetch it:\n"
		   "  -j, --jobs N        connections (default: 1, at most %d)\n"
		   "  --page-bytes N      size of a page, like 512kB (default: 1MB)\n"
		   "  --retry SECONDS     how long to try when a connection is lost\n"
		   "                      (default: 300)\n"
		   "  --checkpoint SECONDS  how often what was fetched is made safe\n"
		   "                      (default: 2)\n"
		   "  --quiet             no progress\n"
		   "\n"
		   "Connection options:\n"
		   "  -h, --host HOST     server or folder of its socket\n"
		   "  -p, --port PORT     its port\n"
		   "  -U, --username USER role to connect as\n"
		   "  -d, --dbname NAME   database, or a connection string\n"
		   "  -w, --no-password   never ask for a password\n"
		   "  -W, --password      ask for one\n"
		   "\n"
		   "  --help, --version   this text; the version\n"
		   "\n"
		   "Exit status: 0 done, 1 the server refused, 2 wrong options, 3 no connection,\n"
		   "4 output not writable, 5 the answer is gone, 6 FILE and its state do not fit\n"
		   "together, 7 closed pipe, 130 or 143 interrupted.\n",
		   MAX_JOBS);
}

static int
wrong(const char *format,...) pg_attribute_printf(1, 2);

static int
wrong(const char *format,...)
{
	char		text[1024];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	say("error: %s", text);
	fprintf(stderr, "Try \"peekget --help\".\n");
	return EXIT_USAGE;
}

/* A whole number, with or without a unit of bytes. */
static bool
parse_number(const char *text, bool bytes, int64 min, int64 max, int64 *value)
{
	char	   *end;
	int64		factor = 1;

	errno = 0;
	*value = strtoll(text, &end, 10);
	if (end == text || errno != 0)
		return false;
	if (bytes && strcmp(end, "kB") == 0)
		factor = 1024;
	else if (bytes && strcmp(end, "MB") == 0)
		factor = 1024 * 1024;
	else if (*end != '\0' && !(bytes && strcmp(end, "B") == 0))
		return false;
	if (*value < min || *value > max / factor)
		return false;
	*value *= factor;
	return *value >= min && *value <= max;
}

/* Names between commas, as they are; an empty one is not a name. */
static bool
parse_columns(const char *text, Words *columns)
{
	char	   *copy = pg_strdup(text);
	char	   *name = copy;

	for (;;)
	{
		char	   *comma = strchr(name, ',');

		if (comma != NULL)
			*comma = '\0';
		if (*name == '\0')
			return false;
		words_add(columns, "column", name);
		if (comma == NULL)
			break;
		name = comma + 1;
	}
	free(copy);
	return true;
}

/*
 * A database name as libpq takes it, which may be a connection string.  Its
 * keywords are taken apart here, because all but the password are kept in the
 * state file.
 */
static int
add_dbname(const char *text)
{
	PQconninfoOption *parsed;
	char	   *error = NULL;

	if (strchr(text, '=') == NULL &&
		strncmp(text, "postgresql://", 13) != 0 &&
		strncmp(text, "postgres://", 11) != 0)
	{
		words_add(&options.connection, "dbname", text);
		return EXIT_DONE;
	}

	parsed = PQconninfoParse(text, &error);
	if (parsed == NULL)
	{
		if (error != NULL && *error != '\0')
			error[strcspn(error, "\n")] = '\0';
		return wrong("%s", error != NULL ? error : "out of memory");
	}
	for (PQconninfoOption *option = parsed; option->keyword != NULL; option++)
	{
		if (option->val == NULL)
			continue;
		/* that is how libpq marks what must not be shown */
		if (strchr(option->dispchar, '*') != NULL)
			words_add(&options.secrets, option->keyword, option->val);
		else
			words_add(&options.connection, option->keyword, option->val);
	}
	PQconninfoFree(parsed);
	return EXIT_DONE;
}

/* 8-4-4-4-12 digits; made lower case */
static bool
parse_handle(char *text)
{
	if (strlen(text) != 36)
		return false;
	for (int i = 0; i < 36; i++)
	{
		if (i == 8 || i == 13 || i == 18 || i == 23)
		{
			if (text[i] != '-')
				return false;
		}
		else if (!isxdigit((unsigned char) text[i]))
			return false;
		else
			text[i] = pg_tolower((unsigned char) text[i]);
	}
	return true;
}

/* Whether what was given makes sense together. */
static int
options_check(void)
{
	const Request *request = &options.request;
	int			sources = (request->query != NULL) +
		(request->index != NULL) + (request->handle != NULL);

	if (sources > 1)
		return wrong("only one of --query, --index and --handle can be given");
	if (sources == 0 && !options.resume)
		return wrong("one of --query, --index and --handle must be given");
	if (options.resume && options.force)
		return wrong("--resume and --force exclude each other");
	if (options.file == NULL)
	{
		if (options.resume)
			return wrong("--resume needs -o FILE");
		if (options.force)
			return wrong("--force needs -o FILE");
	}
	if (options.verify && !options.resume)
		return wrong("--verify needs --resume");
	if (request->index == NULL && sources > 0 &&
		(request->filter != NULL || request->columns.count > 0 ||
		 request->backward || request->limit != NULL))
		return wrong("--filter, --columns, --backward and --limit need --index");
	if (request->args.count > 0 && sources > 0 &&
		request->query == NULL && request->filter == NULL)
		return wrong("--arg needs --query or --filter");
	if (request->handle != NULL && request->label != NULL)
		return wrong("--label needs --query or --index");
	if (options.header > 0 && (options.format == FORMAT_BINARY ||
							   options.format == FORMAT_JSONL))
		return wrong("--header needs the format csv or text");
	return EXIT_DONE;
}

/*
 * Fills "options".  Exits for --help and --version.
 */
int
options_parse(int argc, char **argv)
{
	Request    *request = &options.request;
	const char *dbname = NULL;
	const char *username = NULL;
	int			c;
	int64		number;

	options.format = -1;
	options.header = -1;
	options.jobs = 1;
	options.page_bytes = 1024 * 1024;
	options.retry = 300;
	options.checkpoint = 2;

	/* getopt has '?' for what it does not know */
	if (argc == 2 && strcmp(argv[1], "-?") == 0)
	{
		help();
		exit(EXIT_DONE);
	}

	while ((c = getopt_long(argc, argv, "h:p:U:d:wWo:j:V",
							long_options, NULL)) != -1)
	{
		switch (c)
		{
			case 'h':
				words_add(&options.connection, "host", optarg);
				break;
			case 'p':
				words_add(&options.connection, "port", optarg);
				break;
			case 'U':
				username = optarg;
				break;
			case 'd':
				dbname = optarg;
				break;
			case 'w':
				options.prompt = -1;
				break;
			case 'W':
				options.prompt = 1;
				break;
			case 'o':
				options.file = strcmp(optarg, "-") == 0 ? NULL : optarg;
				if (*optarg == '\0')
					return wrong("the name of the output is empty");
				break;
			case 'j':
				if (!parse_number(optarg, false, 1, MAX_JOBS, &number))
					return wrong("-j must be a number from 1 to %d", MAX_JOBS);
				options.jobs = (int) number;
				break;
			case OPTION_QUERY:
				request->query = optarg;
				break;
			case OPTION_ARG:
				words_add(&request->args, "arg", optarg);
				break;
			case OPTION_INDEX:
				request->index = optarg;
				break;
			case OPTION_FILTER:
				request->filter = optarg;
				break;
			case OPTION_COLUMNS:
				if (!parse_columns(optarg, &request->columns))
					return wrong("--columns must be names between commas");
				break;
			case OPTION_BACKWARD:
				request->backward = true;
				break;
			case OPTION_LIMIT:
				if (!parse_number(optarg, false, 0, PG_INT64_MAX, &number))
					return wrong("--limit must be a number of rows");
				request->limit = psprintf(INT64_FORMAT, number);
				break;
			case OPTION_HANDLE:
				request->handle = pg_strdup(optarg);
				if (!parse_handle(request->handle))
					return wrong("\"%s\" is not a uuid", optarg);
				break;
			case OPTION_FORMAT:
				options.format = format_by_name(optarg);
				if (options.format < 0)
					return wrong("--format must be text, csv, binary or jsonl");
				break;
			case OPTION_HEADER:
				options.header = 1;
				break;
			case OPTION_PAGE_BYTES:
				if (!parse_number(optarg, true, 1, MAX_PAGE_BYTES,
								  &options.page_bytes))
					return wrong("--page-bytes must be from 1 to 64MB");
				break;
			case OPTION_KEEP:
				options.keep = true;
				break;
			case OPTION_TTL:
				request->ttl = optarg;
				break;
			case OPTION_LABEL:
				request->label = optarg;
				break;
			case OPTION_RESUME:
				options.resume = true;
				break;
			case OPTION_FORCE:
				options.force = true;
				break;
			case OPTION_VERIFY:
				options.verify = true;
				break;
			case OPTION_RETRY:
				if (!parse_number(optarg, false, 0, INT_MAX / 2, &number))
					return wrong("--retry must be a number of seconds");
				options.retry = (int) number;
				break;
			case OPTION_CHECKPOINT:
				{
					char	   *end;

					options.checkpoint = strtod(optarg, &end);
					if (end == optarg || *end != '\0' ||
						!(options.checkpoint >= 0 &&
						  options.checkpoint <= 3600))
						return wrong("--checkpoint must be from 0 to 3600 seconds");
				}
				break;
			case OPTION_QUIET:
				options.quiet = true;
				break;
			case 'V':
				printf("peekget (peekstash) %s\n", PEEKSTASH_VERSION);
				exit(EXIT_DONE);
			case OPTION_HELP:
				help();
				exit(EXIT_DONE);
			default:
				/* getopt has said what is wrong */
				fprintf(stderr, "Try \"peekget --help\".\n");
				return EXIT_USAGE;
		}
	}

	/* as psql has it: what is free of the database's and the user's name */
	for (; optind < argc; optind++)
	{
		if (dbname == NULL)
			dbname = argv[optind];
		else if (username == NULL)
			username = argv[optind];
		else
			return wrong("too many arguments: \"%s\"", argv[optind]);
	}
	if (username != NULL)
		words_add(&options.connection, "user", username);
	if (dbname != NULL)
	{
		int			status = add_dbname(dbname);

		if (status != EXIT_DONE)
			return status;
	}
	return options_check();
}

/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  What people see meanwhile.
 *
 * On a terminal one line that is written over and over; otherwise a line
 * every few seconds, as a log wants it.  All of it goes to standard error,
 * and nothing with --quiet.
 *
 * Copyright (c) 2026, the peekstash authors
 *
 * IDENTIFICATION
 *	  src/peekget/progress.c
 *
 *-------------------------------------------------------------------------
 */
#include "peekget/peekget.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "peekget/progress.h"

#define TERMINAL_INTERVAL 0.25	/* seconds between two looks */
#define LOG_INTERVAL 5.0

/* The rate is that of the last seconds. */
#define NUM_SAMPLES 32

static struct
{
	double		time;
	int64		rows;
	int64		bytes;
}			samples[NUM_SAMPLES];
static int	num_samples;

static double started;
static double last_shown;
static double last_sample;
static int64 total_rows;
static int64 first_rows;
static int64 first_bytes;
static bool line_is_open;

static bool
on_terminal(void)
{
	static int	known = -1;

	if (known < 0)
		known = isatty(STDERR_FILENO);
	return known != 0;
}

static int
terminal_width(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return 80;
}

/* "1.5 GB"; the buffer is static, of two */
static const char *
pretty_bytes(double bytes)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
	static char buffers[2][32];
	static int	next;
	int			unit = 0;

	next = 1 - next;
	while (bytes >= 1000 && unit < (int) lengthof(units) - 1)
	{
		bytes /= 1024;
		unit++;
	}
	snprintf(buffers[next], sizeof(buffers[next]),
			 unit == 0 || bytes >= 10 ? "%.0f %s" : "%.1f %s",
			 bytes, units[unit]);
	return buffers[next];
}

/* "1:05" or "2:01:05" */
static const char *
pretty_time(double seconds)
{
	static char buffer[32];
	long		s = (long) (seconds + 0.5);

	if (s >= 3600)
		snprintf(buffer, sizeof(buffer), "%ld:%02ld:%02ld",
				 s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(buffer, sizeof(buffer), "%ld:%02ld", s / 60, s % 60);
	return buffer;
}

/* Is it time for another line? */
static bool
is_due(double now)
{
	if (options.quiet)
		return false;
	if (now - last_shown < (on_terminal() ? TERMINAL_INTERVAL : LOG_INTERVAL))
		return false;
	last_shown = now;
	return true;
}

static void
show(const char *text)
{
	if (on_terminal())
	{
		int			width = terminal_width() - 1;

		fprintf(stderr, "\r%-*.*s", width, width, text);
		fflush(stderr);
		line_is_open = true;
	}
	else
		fprintf(stderr, "peekget: %s\n", text);
}

/* Before anything else is written to the terminal. */
void
progress_clear(void)
{
	if (line_is_open)
	{
		fprintf(stderr, "\r%*s\r", terminal_width() - 1, "");
		line_is_open = false;
	}
}

/* Nothing is fetched yet; tells what goes on. */
void
progress_note(const char *format,...)
{
	char		text[256];
	va_list		args;

	/* The first line on a log is due after an interval. */
	if (last_shown == 0)
		last_shown = on_terminal() ? 1 : now_seconds();
	if (!is_due(now_seconds()))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	show(text);
}

/* The rows begin to come, from some row on. */
void
progress_begin(int64 num_rows, int64 rows, int64 bytes)
{
	started = now_seconds();
	last_shown = on_terminal() ? 0 : started;
	last_sample = 0;
	num_samples = 0;
	total_rows = num_rows;
	first_rows = rows;
	first_bytes = bytes;
}

void
progress_rows(int64 rows, int64 bytes)
{
	double		now;
	double		seconds;
	double		row_rate;
	char		text[256];
	char		bar[21];
	char		left[48] = "";
	int			oldest;
	int			percent;

	if (options.quiet)
		return;
	now = now_seconds();
	if (now - last_sample >= 0.5)
	{
		int			i = num_samples++ % NUM_SAMPLES;

		samples[i].time = last_sample = now;
		samples[i].rows = rows;
		samples[i].bytes = bytes;
	}
	if (!is_due(now))
		return;

	oldest = num_samples <= NUM_SAMPLES ? 0 : num_samples % NUM_SAMPLES;
	seconds = now - samples[oldest].time;
	row_rate = seconds > 0 ? (rows - samples[oldest].rows) / seconds : 0;
	if (row_rate > 0)
		snprintf(left, sizeof(left), ", %s left",
				 pretty_time((total_rows - rows) / row_rate));
	percent = total_rows == 0 ? 100 : (int) (100.0 * rows / total_rows);
	for (int i = 0; i < 20; i++)
		bar[i] = i < percent / 5 ? '#' : '.';
	bar[20] = '\0';
	snprintf(text, sizeof(text),
			 "%s%s%s%3d %%  " INT64_FORMAT " of " INT64_FORMAT
			 " rows, %s, %s/s%s",
			 on_terminal() ? "[" : "", on_terminal() ? bar : "",
			 on_terminal() ? "] " : "",
			 percent, rows, total_rows, pretty_bytes((double) bytes),
			 pretty_bytes(seconds > 0 ?
						  (bytes - samples[oldest].bytes) / seconds : 0),
			 left);
	show(text);
}

/* All rows have come. */
void
progress_end(int64 rows, int64 bytes)
{
	double		seconds = now_seconds() - started;

	if (options.quiet)
		return;
	progress_clear();
	fprintf(stderr, "peekget: " INT64_FORMAT " rows, %s", rows,
			pretty_bytes((double) bytes));
	if (first_rows > 0)
		fprintf(stderr, "; " INT64_FORMAT " of them", rows - first_rows);
	fprintf(stderr, " in %.1f s, %s/s\n", seconds,
			pretty_bytes(seconds > 0 ? (bytes - first_bytes) / seconds : 0));
}

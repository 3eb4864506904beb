# lib.sh
#	What test/run and the other scripts share: install what is missing, make
#	a private PostgreSQL with peekstash in it, start and stop its servers.
#
# Sourced with ROOT set to the top of the clone.  Nothing is written into the
# clone, and nothing of the machine is changed but for missing packages: the
# extension is built in a temporary folder and installed into a copy of
# PostgreSQL there.  PostgreSQL finds its files relative to its binaries, so
# the copy is complete, pg_config and PGXS included.
#
# One temporary folder ($TMP) holds everything, and nothing outlives the
# script that made it:
#	src/			the parts of the clone that are needed, readable to all
#	build/VARIANT/	object files
#	pg/VARIANT/		the private copy; see server_copy
#	data/, sock/	servers and their sockets
#	out/, home/		results; the home folder of who runs the tests
#
# Environment:
#	PG_MAJOR	the server's major version, 15 unless set
#	KEEP=1		leave the temporary folder for a look at it

PG_MAJOR=${PG_MAJOR:-15}
PG_LIB=/usr/lib/postgresql/$PG_MAJOR
PG_SHARE=/usr/share/postgresql/$PG_MAJOR
PG_INCLUDE=/usr/include/postgresql

# The caller's settings must not leak into builds, servers and tests: neither
# libpq's (PGHOST, PGOPTIONS, ...) nor those of the make that calls us, whose
# PG_CONFIG would win over the private one.
for name in $(env | sed -n 's/^\(PG[A-Z]*\)=.*/\1/p')
do
	unset "$name"
done
unset MAKEFLAGS MFLAGS MAKELEVEL PG_CONFIG PEEKSTASH_TEST COPT DESTDIR
unset PROVE_FLAGS PERL5OPT TZ LANGUAGE
LC_ALL=C
LANG=C
export LC_ALL LANG
umask 022

# PostgreSQL refuses to run as root; Debian's package brings a user for it.
if [ "$(id -u)" -eq 0 ]
then
	PG_USER=postgres
else
	PG_USER=$(id -un)
fi

say()
{
	echo "== $*"
}

die()
{
	echo "error: $*" >&2
	exit 1
}


# Packages

# The version that a program, or a header, of the server says it has.
version_program()
{
	"$PG_LIB/bin/$1" --version 2>/dev/null | sed 's/^[^)]*) //'
}

version_header()
{
	sed -n 's/^#define PG_VERSION "\(.*\)"/\1/p' \
		"$PG_INCLUDE/$PG_MAJOR/server/pg_config.h" 2>/dev/null
}

# What else than a build a script needs; it says so before packages_install:
#	clients		PgBouncer, and the drivers of "make test"
#	drivers		those of "make drivers"
#	valgrind
NEEDS=

# Debian's modules belong to Debian's interpreter, whatever PATH finds first.
PYTHON=/usr/bin/python3
JDBC_JAR=/usr/share/java/postgresql.jar

# Sets MISSING to the packages that must be installed; empty if none.
packages_missing()
{
	MISSING=

	# Looked for as files, which also finds a server that did not come as a
	# package.  A server, a client (the test drivers are part of it) and
	# headers of different minor releases do not fit together, so the three
	# are always installed in one call, which brings all of them to the
	# newest release.
	server=$(version_program postgres)
	if [ -z "$server" ] || [ "$(version_program psql)" != "$server" ] ||
		[ "$(version_header)" != "$server" ] ||
		[ ! -x "$PG_LIB/lib/pgxs/src/test/regress/pg_regress" ]
	then
		MISSING="postgresql-$PG_MAJOR postgresql-client-$PG_MAJOR"
		MISSING="$MISSING postgresql-server-dev-$PG_MAJOR"
	fi

	perl -MIPC::Run -e 1 2>/dev/null || MISSING="$MISSING libipc-run-perl"
	command -v prove >/dev/null || MISSING="$MISSING perl"
	command -v make >/dev/null || MISSING="$MISSING make"
	command -v gcc >/dev/null || MISSING="$MISSING gcc"
	[ -e /usr/include/stdio.h ] || MISSING="$MISSING libc6-dev"
	for need in $NEEDS
	do
		"packages_missing_$need"
	done
	MISSING=${MISSING# }
}

packages_missing_clients()
{
	[ -x /usr/sbin/pgbouncer ] || MISSING="$MISSING pgbouncer"
	$PYTHON -c 'import psycopg2' 2>/dev/null ||
		MISSING="$MISSING python3-psycopg2"
	$PYTHON -c 'import psycopg' 2>/dev/null ||
		MISSING="$MISSING python3-psycopg"
}

packages_missing_drivers()
{
	packages_missing_clients
	command -v node >/dev/null || MISSING="$MISSING nodejs"
	[ -e $JDBC_JAR ] || MISSING="$MISSING libpostgresql-jdbc-java"
	# java runs a source file by itself if there is a compiler
	java --list-modules 2>/dev/null | grep -q '^jdk[.]compiler@' ||
		MISSING="$MISSING default-jdk-headless"
}

packages_missing_valgrind()
{
	command -v valgrind >/dev/null || MISSING="$MISSING valgrind"
}

# Installs what is missing.  Without the right to do so: prints the command
# that somebody else has to give, and nothing else, and fails.
packages_install()
{
	packages_missing
	[ -n "$MISSING" ] || return 0

	if [ "$(id -u)" -eq 0 ]
	then
		SUDO=
	elif sudo -n true 2>/dev/null
	then
		SUDO="sudo -n"
	else
		echo "apt-get install -y --no-install-recommends $MISSING"
		exit 1
	fi

	debian_hold
	say "apt-get update"
	# A repository that does not answer need not be the one that is needed.
	apt_get update || say "apt-get update failed; trying what is known"
	say "apt-get install $MISSING"
	# shellcheck disable=SC2086
	apt_get install -y --no-install-recommends $MISSING ||
		die "could not install $MISSING"
	debian_release

	packages_missing
	[ -z "$MISSING" ] || die "still missing after the installation: $MISSING"

	for exe in /proc/[0-9]*/exe
	do
		if [ "$(readlink "$exe")" = "$PG_LIB/bin/postgres (deleted)" ]
		then
			say "a server of this machine still runs its old minor release"
			break
		fi
	done 2>/dev/null
}

# apt-get's own output is only of interest when it fails.
apt_get()
{
	apt_log=$(mktemp)
	apt_status=0
	$SUDO env DEBIAN_FRONTEND=noninteractive apt-get -q \
		-o DPkg::Lock::Timeout=300 "$@" </dev/null >"$apt_log" 2>&1 ||
		apt_status=$?
	[ $apt_status -eq 0 ] || tail -n 50 "$apt_log"
	rm -f "$apt_log"
	return $apt_status
}

# Debian's server package creates a cluster "main" when it is installed first,
# starts all clusters at the end of its installation, and restarts those that
# run when it is upgraded.  A test run wants none of that: no server that was
# not asked for, and no restart of one that is in use.  So for the time of the
# installation
#	- a policy-rc.d refuses to start, stop and restart services, unless the
#	  machine has a policy of its own, which then stands;
#	- a drop-in file switches off the creation of "main".  It is a file of its
#	  own because createcluster.conf is the machine's configuration, and does
#	  not exist before the first installation.
# Both are gone afterwards: whoever installs a server package later gets what
# Debian does.
POLICY=/usr/sbin/policy-rc.d
NO_MAIN=/etc/postgresql-common/createcluster.d/peekstash-test.conf
POLICY_OURS=
NO_MAIN_OURS=

debian_hold()
{
	if [ ! -e $POLICY ]
	then
		say "no service is started meanwhile ($POLICY)"
		POLICY_OURS=yes
		printf '#!/bin/sh\n# put here by a test of peekstash\nexit 101\n' |
			$SUDO tee $POLICY >/dev/null
		$SUDO chmod 755 $POLICY
	fi
	if [ ! -e $NO_MAIN ]
	then
		NO_MAIN_OURS=yes
		[ -d "${NO_MAIN%/*}" ] || NO_MAIN_OURS=folder
		$SUDO mkdir -p "${NO_MAIN%/*}"
		echo "create_main_cluster = false" | $SUDO tee $NO_MAIN >/dev/null
	fi
}

debian_release()
{
	[ -z "$POLICY_OURS" ] || $SUDO rm -f $POLICY
	[ -z "$NO_MAIN_OURS" ] || $SUDO rm -f $NO_MAIN
	[ "$NO_MAIN_OURS" != folder ] || $SUDO rmdir "${NO_MAIN%/*}"
	POLICY_OURS=
	NO_MAIN_OURS=
}


# The temporary folder, and the end of everything

# Sets TMP.  Call it once, before anything below.
temp_make()
{
	# A socket's path must stay under 100 bytes, and the tests' user must be
	# able to reach the folder: an unusual TMPDIR may fail in either.
	base=${TMPDIR:-/tmp}
	if [ ${#base} -gt 40 ] || [ "$base" = "${base#/}" ]
	then
		base=/tmp
	fi
	if [ "$base" != /tmp ] && [ "$(id -u)" -eq 0 ] &&
		! (cd / && as_user test -x "$base")
	then
		base=/tmp
	fi

	TMP=$(mktemp -d "$base/peekstash.XXXXXX")
	chmod 755 "$TMP"
	mkdir "$TMP/build" "$TMP/pg" "$TMP/data" "$TMP/sock" "$TMP/out" \
		"$TMP/home" "$TMP/t"
	if [ "$(id -u)" -eq 0 ]
	then
		chown "$PG_USER" "$TMP/data" "$TMP/sock" "$TMP/out" "$TMP/home" \
			"$TMP/t"
	fi
	if [ "${KEEP:-0}" = 1 ]
	then
		say "temporary folder $TMP, to be kept"
	else
		say "temporary folder $TMP"
	fi
}

# Runs a command as the user of the servers and tests.  Callers must stand in
# a folder that this user may enter.  It is an exec at the end and nothing
# stays between (as with su or runuser), so signals arrive where they are
# sent.  $AS_USER is the same for where a command line is needed.
AS_USER=
if [ "$(id -u)" -eq 0 ]
then
	AS_USER="setpriv --reuid=$PG_USER --regid=$PG_USER --init-groups --"
fi

as_user()
{
	$AS_USER env HOME="${TMP:-/}/home" "$@"
}

# The processes whose program lies in the temporary folder, that is, servers
# and clients of a private copy and no others, whatever became of their
# parents.  With an argument: those that run this program, or, with
# "!program", any other.
processes_ours()
{
	for exe in /proc/[0-9]*/exe
	do
		program=$(readlink "$exe" 2>/dev/null) || continue
		case $program in
			"$TMP"/*) ;;
			*) continue ;;
		esac
		program=${program##*/}
		program=${program%% *}
		case ${1:-} in
			"" | "$program") ;;
			"!$program") continue ;;
			!*) ;;
			*) continue ;;
		esac
		pid=${exe#/proc/}
		echo "${pid%/exe}"
	done
}

# Ends them: a server by SIGQUIT, its immediate shutdown, which also gives
# back its shared memory; what is left after ten seconds by SIGKILL.
processes_end()
{
	# shellcheck disable=SC2046
	kill -TERM $(processes_ours !postgres) 2>/dev/null
	# shellcheck disable=SC2046
	kill -QUIT $(processes_ours postgres) 2>/dev/null
	tries=0
	while pids=$(processes_ours) && [ -n "$pids" ] && [ $tries -lt 200 ]
	do
		# shellcheck disable=SC2086
		[ $tries -lt 100 ] || kill -KILL $pids 2>/dev/null
		tries=$((tries + 1))
		sleep 0.1
	done
}

# What else a script must end: it defines this function anew.
jobs_end()
{
	:
}

# Nothing of ours outlives the script, however it ends.
clean_up()
{
	status=$?
	trap - EXIT
	trap '' INT TERM HUP
	debian_release
	if [ -n "${TMP:-}" ]
	then
		jobs_end
		processes_end
		[ "${KEEP:-0}" = 1 ] || rm -rf "$TMP"
	fi
	exit $status
}

trap_set()
{
	trap clean_up EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}


# Building

# The needed parts of the clone: its own place may be unreadable to the user
# of the tests, and objects of a build in the clone would be found by VPATH
# and taken for up to date.
source_copy()
{
	say "copying the sources"
	mkdir "$TMP/src"
	(cd "$ROOT" && tar cf - --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
		Makefile peekstash.control peekstash.map sql src expected test) |
		(cd "$TMP/src" && tar xf - --no-same-owner)
	chmod -R a+rX "$TMP/src"
}

# A list of the Makefile.
make_list()
{
	make -s -C "$ROOT" "list-$1"
}

# Where the private copy of a variant has its programs and its test drivers.
variant_bin()
{
	echo "$TMP/pg/$1$PG_LIB/bin"
}

variant_pgxs()
{
	echo "$TMP/pg/$1$PG_LIB/lib/pgxs/src"
}

# A private copy of PostgreSQL.  The variants:
#	plain	peekstash as users get it
#	test	with stop points and its own Asserts
# Left out are manuals and bitcode (half of the size).  The headers are a
# link: pg_config names them relative to itself.
server_copy()
{
	say "$1: copying PostgreSQL $(version_program postgres)"
	mkdir -p "$TMP/pg/$1${PG_LIB%/*}" "$TMP/pg/$1${PG_SHARE%/*}" \
		"$TMP/pg/$1${PG_INCLUDE%/*}"
	(cd "${PG_LIB%/*}" && tar cf - --exclude='*/lib/bitcode' "$PG_MAJOR") |
		(cd "$TMP/pg/$1${PG_LIB%/*}" && tar xf -)
	(cd "${PG_SHARE%/*}" && tar cf - --exclude='*/man' "$PG_MAJOR") |
		(cd "$TMP/pg/$1${PG_SHARE%/*}" && tar xf -)
	ln -s "$PG_INCLUDE" "$TMP/pg/$1$PG_INCLUDE"
}

# Builds a variant and installs it into its private copy.  Warnings are
# errors: see the Makefile for which.  Fails after showing the log.
variant_build()
{
	say "$1: building and installing peekstash"
	flag=
	[ "$1" != test ] || flag=PEEKSTASH_TEST=1
	mkdir "$TMP/build/$1"
	if ! make -s -j 2 -C "$TMP/build/$1" -f "$TMP/src/Makefile" VPATH="$TMP/src" \
		PG_CONFIG="$(variant_bin "$1")/pg_config" with_llvm=no COPT=-Werror \
		$flag install >"$TMP/out/build_$1.log" 2>&1
	then
		cat "$TMP/out/build_$1.log"
		echo "error: $1: peekstash could not be built" >&2
		return 1
	fi
}

variant_make()
{
	server_copy "$1" && variant_build "$1"
}


# Servers

# They listen on a socket in the temporary folder and nowhere else.  The port
# is only part of the socket's name, so one number is as good as another, but
# servers that run at once need different ones.

# server_start NAME VARIANT PORT CONF...: makes and starts a server with the
# given configuration files, the later ones winning.
server_start()
{
	name=$1
	variant=$2
	port=$3
	shift 3
	bin=$(variant_bin "$variant")
	data=$TMP/data/$name

	say "$name: starting a server"
	cd "$TMP" || return 1
	as_user "$bin/initdb" -D "$data" -U postgres -A trust -N \
		--locale=C --encoding=UTF8 >"$TMP/out/initdb_$name.log" 2>&1 || {
		cat "$TMP/out/initdb_$name.log"
		echo "error: $name: initdb failed" >&2
		return 1
	}
	{
		cat "$@"
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$TMP/sock'"
		echo "port = $port"
	} >>"$data/postgresql.conf"
	as_user "$bin/pg_ctl" start -s -w -D "$data" \
		-l "$TMP/out/server_$name.log" </dev/null || {
		cat "$TMP/out/server_$name.log"
		echo "error: $name: the server did not start" >&2
		return 1
	}
}

# server_stop NAME: a fast shutdown, waited for.
server_stop()
{
	say "$1: stopping the server"
	pid=$(head -n 1 "$TMP/data/$1/postmaster.pid" 2>/dev/null) || return 0
	kill -INT "$pid" 2>/dev/null
	tries=0
	while kill -0 "$pid" 2>/dev/null
	do
		tries=$((tries + 1))
		if [ $tries -ge 300 ]
		then
			echo "error: $1: the server did not stop within 30 seconds" >&2
			return 1
		fi
		sleep 0.1
	done
}

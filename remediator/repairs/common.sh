# Stands before each repair: the guard, the mark, the one line that says how it ended. POSIX sh; busybox is enough.
#
# Environment:
#   NODEMEND_BOOT_ID   the boot in which this repair was announced; in any other it does nothing
#   NODEMEND_ATTEMPT   names this attempt; on the node, one attempt acts once
#   NODEMEND_ROOT      where the host's /proc, /run and /etc are, /host if not given
# Exit codes: 0 done, 70 failed after it began, 71 this attempt began before and nobody knows how that ended, 72 nobody
#   knows, 75 another boot and nothing done, 76 refused or called wrongly and nothing done.
# The container runtime replaces a dollar sign and a name in parentheses: none of the repairs has such a thing.
set -uf
LC_ALL=C
export LC_ALL
root=${NODEMEND_ROOT:-/host}
boot_id=
mark=
said=

clean() { # TEXT: as the inside of a JSON string
    printf '%s' "$1" | tr '\000-\037' ' ' | cut -c1-600 | sed 's/\\/\\\\/g; s/"/\\"/g'
}

finish() { # RESULT CODE DETAIL
    line=$(printf '{"repair":"%s","result":"%s","boot_id":"%s","attempt":"%s","detail":"%s"}' \
        "$repair" "$1" "$(clean "$boot_id")" "$(clean "${NODEMEND_ATTEMPT:-}")" "$(clean "$3")")
    if [ -n "$mark" ]; then
        printf '%s\n%s\n' "$2" "$line" >"$mark/end.part" && mv "$mark/end.part" "$mark/end"
    fi
    tell "$line"
    exit "$2"
}

tell() { # LINE
    printf '%s\n' "$1"
    # The kubelet puts this file's text into the pod's status.
    { printf '%s\n' "$1" >"${NODEMEND_TERMINATION_LOG:-/dev/termination-log}"; } 2>/dev/null || :
}

done_with() { finish "done" 0 "$1"; }
misused() { finish misused 76 "$1"; }
refuse() { finish refused 76 "$1"; }
failed() { finish failed 70 "$1"; }
unknown() { finish unknown 72 "$1"; }

guard() { # Goes on only in the boot in which the repair was announced.
    [ -n "${NODEMEND_BOOT_ID:-}" ] || misused "NODEMEND_BOOT_ID is not set"
    case ${NODEMEND_ATTEMPT:-} in
        '' | *[!A-Za-z0-9.-]* | .*) misused "NODEMEND_ATTEMPT must be letters, digits, dots and hyphens" ;;
    esac
    boot_id=$(cat "$root/proc/sys/kernel/random/boot_id" 2>/dev/null) || boot_id=
    [ -n "$boot_id" ] || refuse "cannot read the boot id under $root/proc"
    [ "$boot_id" = "$NODEMEND_BOOT_ID" ] ||
        finish other_boot 75 "announced in boot $NODEMEND_BOOT_ID, which is over"
}

claim() { # From here on the attempt counts as begun; a second run of it ends here.
    marks=$root/run/nodemend
    mkdir -p "$marks" 2>/dev/null || refuse "cannot write to $marks"
    if mkdir "$marks/$NODEMEND_ATTEMPT" 2>/dev/null; then
        mark=$marks/$NODEMEND_ATTEMPT
        return
    fi
    [ -d "$marks/$NODEMEND_ATTEMPT" ] || refuse "cannot write to $marks"
    if [ -s "$marks/$NODEMEND_ATTEMPT/end" ]; then
        tell "$(sed -n 2p "$marks/$NODEMEND_ATTEMPT/end")"
        exit "$(sed -n 1p "$marks/$NODEMEND_ATTEMPT/end")"
    fi
    finish repeated 71 "this attempt has begun before, and how that ended is not known"
}

bounded() { # SECONDS COMMAND...: its exit code, 124 if it takes longer; what it printed is in `said`.
    # A process in state D outlives SIGKILL, so nothing here waits for the command's end.
    limit=$1
    shift
    box=$(mktemp -d) || { said="no temporary folder"; return 125; }
    (
        trap 'kill -9 "$child" 2>/dev/null; exit' TERM
        "$@" >"$box/out" 2>&1 </dev/null &
        child=$!
        wait "$child"
        echo "$?" >"$box/part" && mv "$box/part" "$box/code"
    ) >/dev/null 2>&1 &
    watcher=$!
    ticks=0
    while [ ! -e "$box/code" ]; do
        if [ "$ticks" -ge "$((limit * 10))" ]; then
            kill "$watcher" 2>/dev/null
            rm -rf "$box"
            said="no answer in $limit s"
            return 124
        fi
        sleep 0.1 2>/dev/null || sleep 1
        ticks=$((ticks + 1))
    done
    code=$(cat "$box/code")
    said=$(head -c 2000 "$box/out")
    rm -rf "$box"
    return "$code"
}

on_host() { # COMMAND...: in the host's mount namespace. For `bounded` only: it replaces the shell that runs it.
    exec nsenter -t 1 -m -- "$@"
}

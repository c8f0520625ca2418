# Unmounts NFS mounts that hang and mounts them again: those that are named, or all. One that answers is left alone.
# What was unmounted is remembered on the host until it is mounted, so that a later run takes it up again.
# The kubelet's own mounts are only unmounted: they go with their pods.
repair=remount_nfs
guard
table=$root/proc/1/mountinfo
lost=$root/run/nodemend/nfs
patience=${NODEMEND_WAIT_SECONDS:-10}
mounting=${NODEMEND_MOUNT_SECONDS:-90}
ended=
trouble=
tried=' '

plain() { # WORD: as it was before mountinfo wrote blanks and the like in octal
    printf '%b' "$(printf '%s' "$1" | sed 's/\\\([0-7][0-7][0-7]\)/\\0\1/g')"
}

listed() { # One line a mount: its point, type, source, options; the words as mountinfo writes them
    while read -r _ _ _ folder point options rest; do
        case " $rest" in
            *" - nfs "* | *" - nfs4 "*) ;;
            *) continue ;;
        esac
        rest=" $rest"
        set -- ${rest#* - }
        [ "$folder" = / ] || folder=part
        printf '%s %s %s %s %s\n' "$point" "$1" "$2" "${3:-rw},$options" "$folder"
    done <"$table"
}

lines_of() { # POINT: how many mounts are there
    listed | cut -d' ' -f1 | grep -cFx -e "$1"
}

wanted() { # POINT: whether it was named, or nothing was
    [ -n "$names" ] || return 0
    printf '%s\n' "$names" | grep -Fqx -e "$(plain "$1")"
}

hangs() { # POINT: asked in a child, since whoever asks may hang for ever
    bounded "$patience" on_host stat -f -- "$(plain "$1")"
    case $? in
        0) return 1 ;;
        124) return 0 ;;
    esac
    case $said in
        *[Ss]tale*) return 0 ;;
    esac
    trouble="$trouble; $1: $said"
    return 1
}

options_of() { # OPTIONS: without those that the mount program finds out anew
    printf '%s' "$1" | tr , '\n' | grep -Ev '^(addr|clientaddr|mountaddr)=' | tr '\n' , | sed 's/,*$//'
}

file_of() { # POINT: where it is remembered
    printf '%s/%s' "$lost" "$(printf '%s' "$1" | cksum | tr -c '0-9\n' -)"
}

take_off() { # POINT: everything that is mounted there
    before=$(lines_of "$1")
    while :; do
        bounded 30 on_host umount -f -l "$(plain "$1")" || {
            trouble="$trouble; umount $1: exit $?: $said"
            return 1
        }
        after=$(lines_of "$1")
        [ "$after" -gt 0 ] && [ "$after" -lt "$before" ] || return 0
        before=$after
    done
}

put_on() { # POINT TYPE SOURCE OPTIONS
    tried="$tried$1 "
    if grep -Eq "^[^#[:space:]]+[[:space:]]+$(printf '%s' "$1" | sed 's/[][\\.*^$+?(){}|]/\\&/g')[[:space:]]" \
        "$root/etc/fstab" 2>/dev/null; then
        bounded "$mounting" on_host mount "$(plain "$1")"
    else
        bounded "$mounting" on_host mount -t "$2" -o "$(options_of "$4")" "$(plain "$3")" "$(plain "$1")"
    fi
    code=$?
    if [ "$code" -ne 0 ]; then
        trouble="$trouble; mount $1: exit $code: $said"
    elif [ "$(lines_of "$1")" -eq 0 ]; then
        trouble="$trouble; $1 is not mounted, although mount said so"
    elif bounded "$patience" on_host stat -f -- "$(plain "$1")"; then
        rm -f "$(file_of "$1")"
        ended="$ended; mounted $1"
    else
        trouble="$trouble; $1 was mounted and does not answer: $said"
    fi
}

remount() { # POINT TYPE SOURCE OPTIONS FOLDER
    case $1 in
        */kubelet/pods/*) take_off "$1" && ended="$ended; unmounted $1"; return ;;
    esac
    if [ "$5" = part ]; then
        take_off "$1" && trouble="$trouble; $1 shows a part of a mount and has to be made anew by hand"
        return
    fi
    mkdir -p "$lost" && printf '%s\n' "$*" >"$(file_of "$1")" || refuse "cannot write to $lost"
    take_off "$1" && put_on "$1" "$2" "$3" "$4"
}

names=$(for name; do printf '%s\n' "$name"; done)
[ -r "$table" ] || refuse "cannot read $table"
# Of several mounts on one point the last hides the others.
found=$(listed | awk '{ last[$1] = $0 } END { for (point in last) print last[point] }' | sort)
for name; do
    seen=$(printf '%s\n' "$found" | while read -r point _; do plain "$point"; echo; done | grep -Fx -e "$name")
    [ -n "$seen" ] || [ -n "$(ls -A "$lost" 2>/dev/null)" ] || failed "$name is no NFS mount"
done
while read -r point type source options folder; do
    [ -n "$point" ] && wanted "$point" && hangs "$point" || continue
    remount "$point" "$type" "$source" "$options" "$folder"
done <<LIST
$found
LIST
set +f
for file in "$lost"/*; do
    set -f
    [ -f "$file" ] || continue
    read -r point type source options folder <"$file"
    case $tried in
        *" $point "*) continue ;; # just now
    esac
    if [ "$(lines_of "$point")" -eq 0 ]; then
        put_on "$point" "$type" "$source" "$options"
    else
        rm -f "$file"
    fi
done
[ -z "$trouble" ] || failed "${trouble#; }${ended}"
done_with "${ended:-no NFS mount hangs}"

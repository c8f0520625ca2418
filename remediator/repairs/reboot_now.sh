# Resets the host at once by the kernel's SysRq: s (write out), u (mount read-only), b (boot).
# For a host whose shutdown would hang. The kernel does s and u in the background, so a file system that hangs holds
# up nothing; unsaved data is lost.
repair=reboot_now
guard
[ $# -eq 0 ] || misused "takes no arguments"
trigger=$root/proc/sysrq-trigger
press() { printf '%s' "$1" >"$trigger"; }

[ -w "$trigger" ] || refuse "cannot write to $trigger"
claim
for letter in s u; do
    bounded 5 press "$letter" || :
    sleep "${NODEMEND_SETTLE_SECONDS:-2}"
done
bounded 5 press b || failed "sysrq b: exit $?: $said"
sleep "${NODEMEND_WAIT_SECONDS:-30}"
unknown "the host still runs ${NODEMEND_WAIT_SECONDS:-30} s after sysrq b"

# Reboots the host in order, by its own systemd.
repair=reboot
guard
[ $# -eq 0 ] || misused "takes no arguments"
claim
bounded 60 on_host systemctl reboot
code=$?
[ "$code" -ne 0 ] || done_with "systemd was asked to reboot"
case $code:$said in
    # Killed, or the answer was lost: the shutdown may have begun all the same.
    124:* | 12[89]:* | 1[3-9][0-9]:* | *imed\ out* | *reset\ by\ peer* | *losed*)
        unknown "systemctl reboot: exit $code: $said" ;;
    *) refuse "systemctl reboot: exit $code: $said" ;;
esac

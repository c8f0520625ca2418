# Restarts one systemd unit of the host and waits until it is active.
repair=restart_unit
guard
[ $# -eq 1 ] || misused "takes one argument, the unit"
case $1 in
    kubelet.service | containerd.service | nvidia-fabricmanager.service) unit=$1 ;;
    *) refuse "$1 is none of kubelet.service, containerd.service, nvidia-fabricmanager.service" ;;
esac
claim
bounded 180 on_host systemctl restart "$unit" || failed "systemctl restart $unit: exit $?: $said"
tries=0
until bounded 10 on_host systemctl is-active "$unit"; do
    tries=$((tries + 1))
    [ "$tries" -lt "${NODEMEND_WAIT_SECONDS:-30}" ] || failed "$unit was restarted and is not active: $said"
    sleep 1
done
done_with "$unit was restarted and is active"

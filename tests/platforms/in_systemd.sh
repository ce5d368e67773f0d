# Runs in the booted Debian of systemd.sh, as a service, with the package /now.deb.
step() { printf '\n== %s\n' "$*"; }
of() { systemctl show --property="$1" --value "${2:-honed.service}"; }
# wait_for WHAT COMMAND...
wait_for() {
    end=$(($(date +%s) + 180)) what=$1
    shift
    until "$@"; do
        if [ "$(date +%s)" -ge "$end" ]; then
            echo "waited in vain for $what" >&2
            systemctl status --no-pager --lines 50 honed.service
            exit 1
        fi
        sleep 0.2
    done
}
is_active() { [ "$(of ActiveState)" = active ]; }
# systemd started it again, and it is ready.
is_another() { [ "$(of NRestarts)" -gt "$1" ] && is_active; }
# has_trained JOB: beyond the step $steps, which it notes.
has_trained() {
    now=$(honed jobs show "$1" --json | /opt/honed/bin/python -c '
import json, sys
job = json.load(sys.stdin)
print(job["progress"]["step"] if job["state"] == "running" else 0)')
    [ "$now" -gt "$steps" ] && steps=$now
}
shows() {
    expected=$1 times=$2
    shift 2
    "$@" | tee /said
    [ "$(grep -c "$expected" /said)" = "$times" ]
}

step 'install, with a disk for the data'
mkdir -p /var/lib/honed
mount -t tmpfs -o mode=755 tmpfs /var/lib/honed
dpkg -i /now.deb
is_active
test "$(of ActiveState honed.socket)" = active
test "$(of Type)" = notify
honed status
# Ten times the level.
systemd-analyze security --no-pager --threshold=10 honed.service | tail -1
systemd-analyze security --no-pager --threshold=10 honed.service >/dev/null
# It may delay sleep, until the running job is saved.
shows ' honed  *sleep ' 1 systemd-inhibit --list --no-pager

step 'train under the restrictions'
grep -E '^(Cap(Eff|Bnd)|NoNewPrivs|Seccomp):' "/proc/$(of MainPID)/status"
grep -q '^CapBnd:.0*$' "/proc/$(of MainPID)/status"
DIGITS=$(echo /opt/honed/lib/python3*/site-packages/honed/cli/demo_data)
honed models add "$DIGITS/base.onnx" --name digits --loss cross_entropy
honed samples add digits "$DIGITS/device.npz"
honed train digits --epochs 2 --watch
honed fetch digits -o /trained.onnx

step stop
honed train digits --epochs 100000
steps=0
wait_for 'the job to train' has_trained 2
before=$(date +%s)
systemctl stop honed.service
echo "stopped after $(($(date +%s) - before)) s, at step $steps or later"
test "$(of Result)" = success
test "$(of ActiveState)" = inactive
# The socket starts it.
wait_for 'the job to go on' has_trained 2
is_active

step 'kill -9'
before=$(of NRestarts)
systemctl kill --kill-whom=main --signal=KILL honed.service
wait_for 'another start' is_another "$before"
wait_for 'the job to go on' has_trained 2
honed jobs cancel 2

step 'a wrong setting'
echo HONED_PRT=9000 >>/etc/default/honed
systemctl restart honed.service && exit 1
test "$(of ActiveState)" = failed
journalctl --sync
shows 'HONED_PRT is not a setting' 1 journalctl --unit=honed.service --no-pager --output=cat
test "$(of NRestarts)" = 0
sed -i '$d' /etc/default/honed
systemctl restart honed.service
is_active

step watchdog
mkdir -p /run/systemd/system/honed.service.d
printf '[Service]\nWatchdogSec=6\n' >/run/systemd/system/honed.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart honed.service
daemon=$(of MainPID) first=$(of WatchdogTimestampMonotonic)
is_fed() { [ $(($(of WatchdogTimestampMonotonic) - first)) -gt 30000000 ]; }
wait_for 'five intervals' is_fed
test "$(of MainPID)" = "$daemon"
before=$(of NRestarts)
kill -STOP "$daemon"
wait_for 'another start' is_another "$before"
journalctl --unit=honed.service --no-pager --output=cat | grep 'Watchdog timeout'
rm -r /run/systemd/system/honed.service.d
systemctl daemon-reload

step 'service of a user'
useradd --create-home somebody
loginctl enable-linger somebody
runtime=/run/user/$(id -u somebody)
as_user() { runuser -u somebody -- env XDG_RUNTIME_DIR="$runtime" "$@"; }
wait_for "the user's systemd" test -S "$runtime/systemd/private"
as_user honed service install --user
shows 'active (running)' 1 as_user honed service status --user
as_user honed models add "$DIGITS/base.onnx" --name digits --loss cross_entropy
as_user honed samples add digits "$DIGITS/device.npz"
as_user honed train digits --epochs 1 --watch
as_user honed service uninstall --user
shows 'not installed' 1 as_user honed service status --user
test -e /home/somebody/.local/share/honed/hone.db

step purge
cp -a /opt/honed /opt/kept
dpkg --purge honed
test "$(of LoadState)" = not-found
test ! -e /run/honed/api.sock
test -z "$(ls -A /var/lib/honed)"

step 'service of the system, without the package'
mv /opt/kept /opt/honed
PATH=/opt/honed/bin:$PATH
honed service install
shows 'active (running)' 2 honed service status
honed status
# Installed again, it listens on TCP too.
honed service install --tcp
honed --url http://127.0.0.1:8471 --token "$(cat /var/lib/honed/admin.token)" status
honed service uninstall
shows 'not installed' 2 honed service status
test -e /var/lib/honed/hone.db
step ok

# Runs in the Debian root of deb.sh, with the packages /before.deb and /now.deb.
mount -t devpts devpts /dev/pts
step() { printf '\n== %s\n' "$*"; }
unit() { sed -n "s/^$2=//p" "/lib/systemd/system/honed.$1"; }

# As systemd would: its socket, folder, user and variables. The first request starts the daemon.
start() {
    install -d -o honed -g honed -m 700 /var/lib/honed
    install -d -o honed -g honed /run/honed
    systemd-socket-activate --listen="$(unit socket ListenStream)" \
        setpriv --reuid="$(unit service User)" --regid=honed --init-groups \
        env HOME=/var/lib/honed STATE_DIRECTORY=/var/lib/honed PATH=/usr/bin:/bin \
        $(unit service Environment) $(grep ^HONED_ "$(unit service EnvironmentFile | tr -d -)") \
        $(unit service ExecStart) 2>>/daemon.log &
    daemon=$!
    for _ in $(seq 600); do [ -S /run/honed/api.sock ] && break; sleep 0.1; done
    chown "$(unit socket SocketUser):$(unit socket SocketGroup)" /run/honed/api.sock
    chmod "$(unit socket SocketMode)" /run/honed/api.sock
    honed status
}
stop() {
    kill "$daemon"
    wait "$daemon" || { cat /daemon.log; exit 1; }
    rm /run/honed/api.sock
}

step install
apt-get update -qq
apt-get install -y -qq --no-install-recommends /before.deb >/apt.log 2>&1 || { cat /apt.log; exit 1; }
id honed
systemd-analyze verify /lib/systemd/system/honed.service /lib/systemd/system/honed.socket
for enabled in sockets.target.wants/honed.socket multi-user.target.wants/honed.service; do
    test -L "/etc/systemd/system/$enabled"
done
test -e /opt/honed/gone

step start and train
DIGITS=$(echo /opt/honed/lib/python3*/site-packages/honed/cli/demo_data)
start
test "$(stat -c %U /proc/$daemon)" = honed
honed models add "$DIGITS/base.onnx" --name digits --loss cross_entropy
honed samples add digits "$DIGITS/device.npz"
honed train digits --epochs 2 --watch
honed versions list digits | grep '^2 '
honed fetch digits -o /trained.onnx
stop

step upgrade
echo HONED_LOG_LEVEL=debug >>/etc/default/honed
apt-get install -y -qq /now.deb >/apt.log 2>&1 || { cat /apt.log; exit 1; }
grep -q HONED_LOG_LEVEL=debug /etc/default/honed
test ! -e /opt/honed/gone
: >/daemon.log
start
grep -q '"level": *"debug"' /daemon.log
honed fetch digits -o /kept.onnx
cmp /trained.onnx /kept.onnx
stop
# Nothing was compiled while it ran: children cannot.
test -z "$(dpkg --verify honed | grep -v /etc/default/honed)"
find /opt/honed -type f | sort >/there
dpkg -L honed | sort | comm -23 /there - | tee /unknown
test ! -s /unknown

step remove
apt-get remove -y -qq honed >/dev/null
test ! -e /opt/honed
test -e /var/lib/honed/hone.db
test -e /etc/default/honed

step purge
apt-get purge -y -qq honed >/dev/null
test ! -e /var/lib/honed
test ! -e /etc/default/honed
test -z "$(find /etc /lib/systemd /usr -name '*honed*')"
step ok

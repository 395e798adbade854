# The first process of a node, in fresh pid, mount, network, uts and ipc namespaces: makes the place look like a machine of its own.
# Everything made here (mounts, interfaces, processes) ends with it, because the kernel takes namespaces down with their last process.
set -e
folder=$1 name=$2 address=$3 gateway=$4 programs=$5

mount --make-rshared /                        # volumes must propagate from the kubelet into containers
mount -t proc proc /proc
# The kubelet sets a few knobs of the kernel that no namespace has copies of: here it finds files instead, and the host keeps its own.
mkdir -p "$folder/kernel"
for knob in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  [ -e "/proc/sys/$knob" ] || continue
  copy="$folder/kernel/$(echo "$knob" | tr / -)"
  cat "/proc/sys/$knob" > "$copy"
  mount --bind "$copy" "/proc/sys/$knob"
done
mkdir -p "$folder/lib/programs"
mount --bind "$programs" "$folder/lib/programs"
mount -t tmpfs tmpfs /run                     # /run/containerd, /run/netns: private, and gone after a "reboot"
mount --rbind "$folder/log" /var/log          # /var/log/pods, containers
mount --rbind "$folder/lib" /var/lib          # /var/lib/kubelet, containerd, cni: kept over a "reboot"; hides $folder itself, so it comes last
hostname "$name"

ip link set lo up
tries=0                                       # nobody plugs the cable in: whoever started this was killed
until ip link show eth0 >/dev/null 2>&1; do
  tries=$((tries + 1)); [ $tries -lt 200 ] || exit 1
  sleep 0.05
done
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$gateway"
shift 5
for route; do ip route add "${route%@*}" via "${route#*@}"; done   # the pods of the other nodes
echo 1 > /proc/sys/net/ipv4/ip_forward

touch /run/ready
exec tini -s -- sleep infinity                # tini adopts and reaps the containers' shims

# Reads commands from the serial console and answers them; see init.sh for the form.

stty raw -echo

# Name of the interface with a MAC address.
interface_of() {
	for path in /sys/class/net/*; do
		if [ "$(cat "$path/address")" = "$1" ]; then
			basename "$path"
			return 0
		fi
	done
	echo "no interface has the MAC address $1" >&2
	return 1
}

while read -r id command; do
	[ -n "$command" ] || continue
	printf '<<%s\n' "$id"
	eval "$command" < /dev/null 2>&1
	printf '\n>>%s %d\n' "$id" "$?"
done

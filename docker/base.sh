#!/bin/sh
# Make a base image from Debian's packages, for machines that reach no registry: Debian 12 with its Python 3.11. Run as root.
#
#   docker/base.sh conformance-base:bookworm
set -eu
if [ "$#" -ne 1 ]; then
    echo "usage: $0 IMAGE:TAG" >&2
    exit 2
fi
image=$1
for program in debootstrap docker; do
    if ! command -v "$program" > /dev/null; then
        echo "$program was not found: apt-get install docker.io debootstrap" >&2
        exit 2
    fi
done
if [ "$(id -u)" -ne 0 ]; then
    echo "debootstrap needs root: run this script as root, or with sudo" >&2
    exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$folder" > "$folder.log" || {
    tail -n 20 "$folder.log" >&2
    exit 1
}
rm -f "$folder.log"
rm -rf "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/* "$folder"/var/cache/apt/*.bin
tar -C "$folder" -c . | docker import \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'CMD ["/bin/sh"]' - "$image" > /dev/null
echo "$image"

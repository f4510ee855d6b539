#!/usr/bin/env bash
# Run a command under Wine in the folder that scripts/get-wine makes, with that folder as its root and a virtual screen.
# usage: wine.sh FOLDER COMMAND [ARGUMENT...]   FOLDER is the working directory and is writable; COMMAND is an .exe in it
# 77: it cannot be done here, with the reason.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../../.runtime/wine
if [ "${IOBIND_DML_INSIDE:-}" = 1 ]; then
  mount --bind "$IOBIND_DML_FOLDER" "$root/folder"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  mount -t tmpfs tmpfs "$root/tmp"
  # shellcheck disable=SC2016 # the inner shell expands it
  exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/lib/wine HOME=/folder/home LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=/tmp \
    WINEPREFIX=/folder/prefix WINEDEBUG="${WINEDEBUG:--all}" DISPLAY=:7 VK_ICD_FILENAMES=/usr/share/vulkan/icd.d/lvp_icd.json \
    ORT_DISABLE_TELEMETRY=1 WINEDLLOVERRIDES="winedbg.exe=d;d3d12=n,b" /bin/sh -c '
      mkdir -p "$HOME"
      Xvfb :7 -screen 0 640x480x24 -nolisten tcp -nolisten local >/tmp/xvfb 2>&1 &
      for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -e /tmp/.X11-unix/X7 ] && break; sleep 0.25; done
      [ -e /tmp/.X11-unix/X7 ] || { echo "wine.sh: no virtual screen:"; cat /tmp/xvfb; exit 77; }
      cd /folder
      [ -d prefix ] || { LC_ALL=C wine64 wineboot --init && wine64 reg add "HKCU\\Software\\Wine\\Direct3D" /v renderer /d vulkan /f; } >/tmp/boot 2>&1 ||
        { cat /tmp/boot; exit 1; }
      status=0
      wine64 "$@" || status=$?
      wineserver64 -k 2>/dev/null || true
      exit $status' sh "$@"
fi
folder=$(realpath "$1")
shift
[ -f "$root/contents" ] || { echo "skip: no Wine: scripts/get-wine fetches it"; exit 77; }
unshare --mount --pid --fork true 2>/dev/null || { echo "skip: this machine lets nobody make a mount namespace"; exit 77; }
export IOBIND_DML_INSIDE=1 IOBIND_DML_FOLDER=$folder
exec unshare --mount --pid --fork --kill-child "${BASH_SOURCE[0]}" "$@"

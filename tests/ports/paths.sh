#!/usr/bin/env bash
# usage: paths.sh MAKE-MODEL PATHS [EMULATOR...]   ORT_NATIVE_LIB_PATH: the folder of ORT
set -euo pipefail
make_model=$1 paths=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
folder='Größe 模型'
mkdir "$folder"
library=
for name in onnxruntime.dll libonnxruntime.so; do
  if [ -e "$ORT_NATIVE_LIB_PATH/$name" ]; then
    cp -L "$ORT_NATIVE_LIB_PATH/$name" "$folder/"
    library=$name
  fi
done
[ -n "$library" ] || { echo "paths: expected ORT in '$ORT_NATIVE_LIB_PATH' (ORT_NATIVE_LIB_PATH), found none"; exit 1; }
"$@" "$make_model" add add.onnx
mv add.onnx "$folder/"
"$@" "$paths" "$library"
compgen -G "$folder/profile*.json" >/dev/null || { echo "paths: no profile in '$folder':"; ls -R .; exit 1; }

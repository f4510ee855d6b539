#!/usr/bin/env bash
# The jars, in a repository of Maven's: projects of a user's run from it, by Maven and, where it is, by Gradle; as modules; and in an image
# of jlink's.
# 77: no Maven, no whole JDK, or what the libraries are built with could not be fetched.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "jars: $*" >&2
  exit 1
}
skip() {
  echo "skipped: $*"
  exit 77
}
command -v mvn >/dev/null || skip 'no mvn'
JAVA_HOME=$("$source/scripts/java-home") && [ -e "$JAVA_HOME/lib/ct.sym" ] || skip 'no whole JDK (scripts/get-jdk --whole)'
export JAVA_HOME ORT_DISABLE_TELEMETRY=1
for platform in manylinux-x64 manylinux-arm64 win-x64; do
  "$source/scripts/get-port-libraries" "$platform" >"$work/log" 2>&1 || skip "$(tail -n 1 "$work/log")"
done
"$source/scripts/build-java" --all --url https://example.org/iobind --developer Somebody >"$work/log" 2>&1 || fail "$(tail -n 20 "$work/log")"
version=$(sed -n 's/^#define IOBIND_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/include/iobind/version.h" | paste -sd.)
repository=$source/dist/maven/io/github/iobind
for name in "onnxruntime-io-binding-ffm/$version/onnxruntime-io-binding-ffm-$version"{,-sources,-javadoc,-natives-linux-x64,-natives-linux-arm64,-natives-win-x64}.jar \
  "iobind-spark/$version/iobind-spark-$version"{,-sources,-javadoc}.jar "onnxruntime-io-binding-bom/$version/onnxruntime-io-binding-bom-$version.pom"; do
  [ -s "$repository/$name" ] || fail "expected $name in the repository"
  (cd "$(dirname "$repository/$name")" && echo "$(cat "$(basename "$name").sha1")  $(basename "$name")" | sha1sum --check --quiet) || fail "$name: another checksum"
done
if grep -r 'iobind\.url\|iobind\.developer' "$repository" --include '*.pom'; then fail 'a pom names what the releaser has given by a variable'; fi
# Each jar but javadoc's has iobind's terms, and those for a platform have the terms of what the compiler has put into them.
for jar in "$repository"/*/"$version"/*.jar; do
  if [[ $jar == *-javadoc.jar ]]; then continue; fi
  "$JAVA_HOME/bin/jar" tf "$jar" >"$work/log"
  for name in META-INF/LICENSE META-INF/NOTICE; do
    grep -qx "$name" "$work/log" || fail "$(basename "$jar"): expected $name"
  done
done
# What each has is for its platform.
for one in 'linux-x64 zig x86-64' 'linux-arm64 zig aarch64' 'win-x64 mingw-w64 PE32+'; do
  read -r platform compiler kind <<<"$one"
  (mkdir "$work/$platform" && cd "$work/$platform" && "$JAVA_HOME/bin/jar" xf "$repository/onnxruntime-io-binding-ffm/$version/onnxruntime-io-binding-ffm-$version-natives-$platform.jar")
  "$JAVA_HOME/bin/javap" --module-path "$work/$platform" --module "io.github.iobind.natives.${platform/-/.}" module-info >/dev/null || fail "$platform: no module"
  [ -s "$work/$platform/META-INF/licenses/$compiler.txt" ] || fail "$platform: no terms of $compiler"
  for name in iobind iobind_java iobind_vdev; do
    file=$(find "$work/$platform/natives/$platform" -name "lib$name.so" -o -name "$name.dll")
    [ -n "$file" ] || fail "$platform: no $name"
    [[ $(file --brief "$file") == *"$kind"* ]] || fail "$file: $(file --brief "$file")"
  done
done

model=$source/.runtime/models/pp-ocr-cls.onnx
[ -f "$model" ] || skip 'scripts/get-models has not been run'
# five WHAT: the program's five pictures are in the log
five() { [ "$(grep -c '^picture [0-4]: upright' "$work/log")" = 5 ] || fail "$1: $(tail -n 20 "$work/log")"; }
# A local repository of its own, so that nothing of this build is found elsewhere; what Maven has fetched is linked into it.
mkdir "$work/local"
cp -rs "$HOME/.m2/repository/." "$work/local/"
rm -rf "$work/local/io/github/iobind"
run_maven() { mvn -q -B -f "$work/examples/maven/pom.xml" "-Dmaven.repo.local=$work/local" "-Diobind.repository=file://$source/dist/maven" "-Dmodel=$model" "$@" compile exec:exec >"$work/log" 2>&1; }
mkdir -p "$work/bindings/java" "$work/examples"
cp -r "$source/bindings/java/samples" "$work/bindings/java/"
cp -r "$source/examples/maven" "$source/examples/gradle" "$work/examples/"
for device in cpu vdev; do
  run_maven "-Ddevice=$device" || fail "Maven: $(tail -n 20 "$work/log")"
  five "Maven, $device"
done
[ -f "$work/local/io/github/iobind/onnxruntime-io-binding-ffm/$version/onnxruntime-io-binding-ffm-$version.jar" ] || fail 'Maven took it from elsewhere'

# As modules: the natives are one that a program names.
jars=$repository/onnxruntime-io-binding-ffm/$version/onnxruntime-io-binding-ffm-$version
mkdir -p "$work/program"
echo 'module program { requires io.github.iobind; requires io.github.iobind.natives.linux.x64; }' >"$work/program/module-info.java"
{ echo 'package program;'; cat "$source/bindings/java/samples/Quickstart.java"; } >"$work/program/Quickstart.java"
"$JAVA_HOME/bin/javac" -d "$work/modules" -p "$jars.jar:$jars-natives-linux-x64.jar" "$work/program/module-info.java" "$work/program/Quickstart.java" >"$work/log" 2>&1 ||
  fail "a module that requires both: $(cat "$work/log")"
export ORT_NATIVE_LIB_PATH=$source/.runtime/onnxruntime
"$JAVA_HOME/bin/java" --enable-native-access=io.github.iobind -p "$jars.jar:$jars-natives-linux-x64.jar:$work/modules" -m program/program.Quickstart "$model" >"$work/log" 2>&1 || true
five 'modules'
tried='Maven, modules'
if [ -x "$JAVA_HOME/bin/jlink" ]; then # a whole JDK has it
  "$JAVA_HOME/bin/jlink" -p "$jars.jar:$jars-natives-linux-x64.jar:$work/modules" --add-modules program --output "$work/image" >"$work/log" 2>&1 || fail "jlink: $(cat "$work/log")"
  "$work/image/bin/java" --enable-native-access=io.github.iobind -m program/program.Quickstart "$model" >"$work/log" 2>&1 || true
  five 'jlink'
  tried="$tried, jlink"
fi
unset ORT_NATIVE_LIB_PATH
if command -v gradle >/dev/null; then
  # Debian's is for older JDKs than what it compiles with here.
  older=$(find /usr/lib/jvm -maxdepth 1 -name 'java-17-openjdk*' -o -maxdepth 1 -name 'java-21-openjdk*' | sort | sed -n 1p)
  JAVA_HOME=${older:-$JAVA_HOME} gradle -q --no-daemon -g "$work/gradle-home" -p "$work/examples/gradle" run "-Piobind.repository=$source/dist/maven" "-Pmodel=$model" \
    "-Pjdk=$("$source/scripts/java-home")" >"$work/log" 2>&1 || fail "Gradle: $(tail -n 20 "$work/log")"
  five Gradle
  tried="$tried, Gradle"
fi
echo "jars: $tried: run from the repository"

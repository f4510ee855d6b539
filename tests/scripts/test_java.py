"""scripts/get-jdk and scripts/build-java without a network, Debian's packages or Maven: what a JDK that is not whole is good for."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
JAVA = '[ "$*" = "--module jdk.compiler/com.sun.tools.javac.Main -version" ]'
# A package is an empty file; what is in it is made here where it is unpacked.
UNPACK = f"""folder=$3/usr/lib/jvm/java-25-openjdk-made
mkdir -p "$folder/bin" "$folder/lib" "$3/usr/lib/made-linux-gnu"
case $2 in
  */openjdk-25-jre-headless.deb) printf '#!/bin/sh\\n{JAVA}\\n' >"$folder/bin/java"; chmod +x "$folder/bin/java"
    touch "$folder/lib/jspawnhelper" "$folder/lib/jexec" "$3/usr/lib/made-linux-gnu/libmade.so" ;;
  */openjdk-25-jdk-headless.deb) echo '#!/bin/sh' >"$folder/bin/javac"; chmod +x "$folder/bin/javac"; touch "$folder/lib/ct.sym" ;;
esac"""
APT = """case $1 in
  indextargets) echo "mirror $(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release) main" ;;
esac
[ "$2" != download ] || for package in "$@"; do case $package in -qq | download) ;; *) touch "$package.deb"; echo "$package" >>"$LOG" ;; esac; done"""


class Java(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log, self.jdk = self.folder / "log", self.folder / "jdk"
        shutil.copytree(SCRIPTS, self.folder / "scripts")

    def program(self, name, text, folder="programs"):
        path = self.folder / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def run_script(self, *command):
        self.log.write_text("", encoding="utf-8")
        path = f"{self.folder / 'programs'}:{os.environ['PATH']}"
        environment = dict(os.environ, PATH=path, LOG=str(self.log), JAVA_HOME=str(self.jdk), SOURCE_DATE_EPOCH="0")
        return subprocess.run([self.folder / "scripts" / command[0], *command[1:]], env=environment, capture_output=True, text=True)

    def logged(self, *command):
        result = self.run_script(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.log.read_text(encoding="utf-8").split()

    @unittest.skipUnless(KEYRING.exists() and "VERSION_CODENAME" in pathlib.Path("/etc/os-release").read_text(), "not a Debian")
    def test_fetched(self):
        self.program("apt-get", APT)
        self.program("dpkg-deb", UNPACK)
        self.program("patchelf", 'case $1 in --print-interpreter) echo /lib/ld.so ;; esac')
        get = ("get-jdk", "--force", "--dir", self.folder / "runtime")
        libraries = ["libc6", "libgcc-s1", "libstdc++6", "zlib1g"]
        self.assertEqual(self.logged(*get), ["openjdk-25-jre-headless"] + libraries)  # and its javac works, or get-jdk had failed
        self.assertEqual(self.logged(*get), [])
        self.assertEqual(self.logged(*get, "--whole"), ["openjdk-25-jre-headless", "openjdk-25-jdk-headless"] + libraries)
        self.assertEqual(self.logged(*get, "--whole"), [])
        self.assertEqual(self.logged(*get), [])

    def test_built(self):
        self.program("javac", "", "jdk/bin")
        (self.jdk / "release").write_text('JAVA_VERSION="25.0.3"\n', encoding="utf-8")
        self.program("strip", "")
        self.program("mvn", 'printf "%s\\n" "$@" >>"$LOG"')
        for build in ("release", "release-tests"):
            library = self.folder / "build" / build / "lib/libiobind.so"
            library.parent.mkdir(parents=True)
            library.touch()
        made = self.folder / "bindings/java/target/classes/Made.class"
        made.parent.mkdir(parents=True)
        made.touch()

        said = self.logged("build-java", "--test")
        self.assertLessEqual({"test", "-Dmaven.compiler.release=", "-Diobind.driver.release=", "-Dmaven.compiler.source=22"}, set(said))
        self.assertTrue(made.exists())
        refused = self.run_script("build-java")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("scripts/get-jdk --whole fetches it", refused.stderr)

        (self.jdk / "lib").mkdir()
        (self.jdk / "lib/ct.sym").touch()
        self.assertNotIn("-Dmaven.compiler", " ".join(self.logged("build-java", "--test")))
        self.assertFalse(made.exists(), "compiled against a newer Java, and taken for what Java 22 allows")
        made.parent.mkdir(parents=True)
        made.touch()
        self.logged("build-java", "--test")
        self.assertTrue(made.exists())


if __name__ == "__main__":
    unittest.main()

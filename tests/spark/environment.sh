# shellcheck shell=bash
# What the tests with Spark and bench/spark need: Spark, the jars, and the environment for both. Sourced, not run; $project is set.
"$project/scripts/get-spark"
JAVA_HOME=$("$project/scripts/java-home")
export JAVA_HOME ORT_DISABLE_TELEMETRY=1 PYTHONDONTWRITEBYTECODE=1
official=$project/build/spark/onnxruntime-1.29.0.jar
if [ ! -e "$official" ]; then
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$(dirname "$official")" \
    -Dartifact=com.microsoft.onnxruntime:onnxruntime:1.29.0
fi
"$project/scripts/build-java"
"$JAVA_HOME/bin/jar" --create --file "$project/build/spark/programs.jar" -C "$project/bindings/java/spark/target/test-classes" io
executor=$(echo "$project"/dist/iobind-spark-*.jar)
export IOBIND_SPARK_JARS=$executor,$official IOBIND_SPARK_PROGRAMS=$project/build/spark/programs.jar
export SPARK_HOME=$project/.runtime/spark/pyspark PYSPARK_PYTHON=$project/.runtime/python/bin/python
export PYTHONPATH=$project/build/release/lib/python:$project/.runtime/spark:$project/tests/spark:$project/.runtime/python-tests

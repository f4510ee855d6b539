/**
 * I/O binding for ONNX Runtime on the JVM. Nothing here takes or gives null but where a type says {@code @Nullable}.
 */
@NullMarked
package io.github.iobind.api;

import org.jspecify.annotations.NullMarked;

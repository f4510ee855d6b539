package io.github.iobind.api;

import java.lang.reflect.Field;

/**
 * The official package, {@code ai.onnxruntime}, where the program has it: its native handles, by reflection, so that this
 * package does not need it.
 */
final class OfficialOrt {
  private OfficialOrt() {}

  /**
   * Its copy of ONNX Runtime, as an {@code OrtApi} pointer, loaded if it is not yet; 0 where it cannot be had, said in tried.
   */
  static long api(StringBuilder tried) {
    Class<?> environment = find("ai.onnxruntime.OrtEnvironment");
    if (environment == null) {
      tried.append("the official onnxruntime jar: not on the class path");
      return 0;
    }
    try {
      environment.getMethod("getEnvironment").invoke(null);
      return api(environment.getClassLoader());
    } catch (ReflectiveOperationException | LinkageError e) {
      Throwable cause = e.getCause() != null ? e.getCause() : e;
      tried.append("the official onnxruntime jar: ").append(cause.toString().lines().findFirst().orElse(""));
      return 0;
    }
  }

  /** The {@code OrtApi} that the classes of a loader use. */
  static long api(ClassLoader loader) throws ReflectiveOperationException {
    Field field = Class.forName("ai.onnxruntime.OnnxRuntime", true, loader).getDeclaredField("ortApiHandle");
    field.setAccessible(true);
    return field.getLong(null);
  }

  /** An {@code ai.onnxruntime.OrtSession}: the object, its native session, its OrtApi, and whether it is closed by now. */
  record Session(Object object, long handle, long api, Field closed) {
    static Session of(Object session) {
      Class<?> type = session.getClass();
      if (!type.getName().equals("ai.onnxruntime.OrtSession")) {
        throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, "expected an ai.onnxruntime.OrtSession, got " + described(type));
      }
      try {
        Field handle = type.getDeclaredField("nativeHandle"), closed = type.getDeclaredField("closed");
        handle.setAccessible(true);
        closed.setAccessible(true);
        Session result = new Session(session, handle.getLong(session), OfficialOrt.api(type.getClassLoader()), closed);
        if (result.isClosed()) throw result.gone();
        return result;
      } catch (ReflectiveOperationException e) {
        throw new OrtFFMException(OrtStatus.VERSION,
            "this version of the official onnxruntime package keeps its handles elsewhere: " + e);
      }
    }

    /** A class, and its loader where the same class is known here by another one. */
    private static String described(Class<?> type) {
      String what = "an object of " + type.getName();
      return !type.getName().equals(OrtSessionFFM.class.getName()) || type == OrtSessionFFM.class ? what
          : what + ", loaded by " + named(type.getClassLoader()) + " and not by " + named(OrtSessionFFM.class.getClassLoader())
              + ": load this package once, by a class loader that both share";
    }

    private static String named(ClassLoader loader) {
      return loader.getName() != null ? "'" + loader.getName() + "'" : loader.toString();
    }

    boolean isClosed() {
      try {
        return closed.getBoolean(object);
      } catch (IllegalAccessException e) {
        throw new AssertionError(e); // it was made accessible
      }
    }

    IllegalStateException gone() {
      return new IllegalStateException("the ai.onnxruntime.OrtSession is closed");
    }
  }

  private static Class<?> find(String name) {
    for (ClassLoader loader : new ClassLoader[] {
      Thread.currentThread().getContextClassLoader(), OfficialOrt.class.getClassLoader()
    }) {
      try {
        return Class.forName(name, false, loader);
      } catch (ClassNotFoundException e) {
        continue;
      }
    }
    return null;
  }
}

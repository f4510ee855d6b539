package io.github.iobind.ffm;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Finds libiobind and loads it, once: a file that a property names, the natives jar, the loader's own names. With it comes
 * libiobind_java, which calls back into Java: from the same directory, the natives jar, by its name.
 */
public final class NativeLibrary {
  /** The system property that names libiobind's file. */
  public static final String PROPERTY = "iobind.library";

  private static SymbolLookup loaded;
  private static SymbolLookup callbacks;
  private static String origin;

  private NativeLibrary() {}

  /**
   * Loads libiobind and libiobind_java where they are not loaded yet.
   *
   * @throws UnsatisfiedLinkError one was not found: the message has what was tried, in order
   * @throws IllegalCallerException the JVM was started so that this module may not call native code: the message has the flag
   */
  public static synchronized void load() {
    if (loaded != null) return;
    List<String> tried = new ArrayList<>();
    String file = System.getProperty(PROPERTY);
    SymbolLookup library;
    if (file != null) {
      library = open(Path.of(file), "-D" + PROPERTY, tried);
    } else {
      library = openFromJar("iobind", tried);
      if (library == null) library = openByName(tried);
    }
    if (library == null) {
      throw new UnsatisfiedLinkError("libiobind was not found. Tried: " + String.join("; ", tried)
          + ". Put onnxruntime-io-binding-ffm's natives jar for " + platform() + " on the class path, or set -D" + PROPERTY
          + " to libiobind's file");
    }
    callbacks = openCallbacks(file);
    loaded = library;
  }

  private static SymbolLookup openCallbacks(String libiobind) {
    List<String> tried = new ArrayList<>();
    String from = origin, name = System.mapLibraryName("iobind_java");
    SymbolLookup library = libiobind == null ? null : open(Path.of(libiobind).resolveSibling(name), "beside libiobind", tried);
    if (library == null) library = openFromJar("iobind_java", tried);
    if (library == null) library = open(name, tried);
    if (library == null) {
      throw new UnsatisfiedLinkError("libiobind_java, which this package needs beside libiobind, was not found. Tried: "
          + String.join("; ", tried) + ". It is in onnxruntime-io-binding-ffm's natives jar for " + platform()
          + ", and is installed with libiobind");
    }
    origin = from;
    return library;
  }

  /** Where libiobind was loaded from, in words. */
  public static synchronized String origin() {
    return origin;
  }

  static synchronized SymbolLookup symbols() {
    load();
    return loaded;
  }

  /** What libiobind_java has. */
  static synchronized SymbolLookup callbackSymbols() {
    load();
    return callbacks;
  }

  /** The platform in the words of the natives jars, such as "linux-x64". */
  public static String platform() {
    String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
    String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    String os = system.startsWith("windows") ? "win" : system.startsWith("mac") ? "macos" : system.replace(' ', '-');
    String cpu = switch (machine) {
      case "amd64", "x86_64" -> "x64";
      case "aarch64" -> "arm64";
      default -> machine;
    };
    return os + "-" + cpu;
  }

  /**
   * Unpacks the virtual accelerator of the natives jar, for the time that an action with its file takes.
   *
   * @return whether the jar has it
   */
  public static boolean withVdev(Consumer<Path> action) {
    String name = System.mapLibraryName("iobind_vdev");
    try (InputStream in = resource(name)) {
      if (in == null) return false;
      unpacked(in, name, file -> {
        action.accept(file);
        return null;
      });
      return true;
    } catch (IOException e) {
      return false;
    }
  }

  /** Does something with a library of the natives jar, which is in a file only for that time. */
  private static <T> T unpacked(InputStream in, String name, Function<Path, T> action) throws IOException {
    Path folder = Files.createTempDirectory("iobind-java");
    Path file = folder.resolve(name);
    try {
      Files.copy(in, file);
      return action.apply(file);
    } finally {
      delete(file);
      delete(folder);
    }
  }

  private static InputStream resource(String name) {
    return NativeLibrary.class.getClassLoader().getResourceAsStream("natives/" + platform() + "/" + name);
  }

  private static SymbolLookup openFromJar(String library, List<String> tried) {
    String name = System.mapLibraryName(library), resource = "natives/" + platform() + "/" + name;
    try (InputStream in = NativeLibrary.class.getClassLoader().getResourceAsStream(resource)) {
      if (in == null) {
        tried.add("natives jar: no " + resource + " on the class path or module path");
        return null;
      }
      return unpacked(in, name, file -> open(file, "natives jar", tried));
    } catch (IOException e) {
      tried.add("natives jar: it cannot be unpacked into " + System.getProperty("java.io.tmpdir") + ": " + e);
      return null;
    }
  }

  /** A loaded library can be deleted but on Windows; there it goes when the JVM ends. */
  private static void delete(Path path) {
    try {
      Files.deleteIfExists(path);
    } catch (IOException e) {
      path.toFile().deleteOnExit();
    }
  }

  private static SymbolLookup openByName(List<String> tried) {
    String mapped = System.mapLibraryName("iobind");
    for (String name : mapped.endsWith(".so") ? new String[] {mapped + ".1", mapped} : new String[] {mapped}) {
      SymbolLookup symbols = open(name, tried);
      if (symbols != null) return symbols;
    }
    return null;
  }

  private static SymbolLookup open(Path file, String how, List<String> tried) {
    if (!Files.isRegularFile(file)) {
      tried.add(how + ": no file " + file);
      return null;
    }
    try {
      return found(SymbolLookup.libraryLookup(file.toAbsolutePath(), Arena.global()), how + ": " + file);
    } catch (IllegalArgumentException e) {
      tried.add(how + ": " + file + " does not load: " + e.getMessage());
      return null;
    } catch (IllegalCallerException e) {
      throw denied(e);
    }
  }

  private static SymbolLookup open(String name, List<String> tried) {
    try {
      return found(SymbolLookup.libraryLookup(name, Arena.global()), "the system's " + name);
    } catch (IllegalArgumentException e) {
      tried.add("the system's " + name + ": not found");
      return null;
    } catch (IllegalCallerException e) {
      throw denied(e);
    }
  }

  private static SymbolLookup found(SymbolLookup symbols, String how) {
    origin = how;
    return symbols;
  }

  private static IllegalCallerException denied(IllegalCallerException cause) {
    Module module = NativeLibrary.class.getModule();
    String who = module.isNamed() ? module.getName() : "ALL-UNNAMED";
    return new IllegalCallerException("native access is denied: start java with --enable-native-access=" + who, cause);
  }
}

package io.github.iobind.api;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.util.Map;
import java.util.Objects;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Texts on their way to libiobind, where they end at a NUL, and its messages on their way back, in Java's words. */
final class Texts {
  /** What a name of C's in a message is here. */
  private static final Map<String, String> NAMES = Map.ofEntries(Map.entry("binding_set_input", "bindInput"),
      Map.entry("binding_write_input", "update"), Map.entry("binding_set_output", "bindOutput"),
      Map.entry("binding_place_output", "bindOutput"),
      Map.entry("binding_set_run_options", "setRunOptions"), Map.entry("binding_check", "check"),
      Map.entry("binding_run", "runWithBindings"), Map.entry("binding_cancel", "cancel"),
      Map.entry("binding_get_output", "getOutput"), Map.entry("binding_take_output", "takeOutput"),
      Map.entry("binding_save_state", "saveState"), Map.entry("binding_restore_state", "restoreState"),
      Map.entry("binding_reorder_state", "reorderState"), Map.entry("binding_rewind_state", "rewindState"),
      Map.entry("binding_write_lengths", "writeLengths"), Map.entry("binding_name_length", "nameLength"),
      Map.entry("session_get_state_kind", "stateKind"),
      Map.entry("state_save", "save"), Map.entry("state_load", "loadState"),
      Map.entry("binding_carry", "carry"), Map.entry("binding_clear", "clear"), Map.entry("audit_create", "audit"),
      Map.entry("pipeline_create", "OrtPipelineFFM.create"), Map.entry("pipeline_submit", "submit"),
      Map.entry("pipeline_next", "next"), Map.entry("tensor_create", "allocate"),
      Map.entry("tensor_wrap", "wrap"), Map.entry("tensor_view", "view"), Map.entry("tensor_slice", "slice"),
      Map.entry("tensor_map", "asMemorySegment"),
      Map.entry("tensor_read", "read"), Map.entry("tensor_write", "write"), Map.entry("tensor_copy", "copyTo"),
      Map.entry("tensor_to_dlpack", "toDlpack"), Map.entry("tensor_from_dlpack", "fromDlpack"),
      Map.entry("tensor_wrap_ort", "fromOrtValue"), Map.entry("tensor_to_ort", "toOrtValue"),
      Map.entry("stream_wrap", "OrtStreamFFM.wrap"), Map.entry("binding_reset_graphs", "forgetGraphs"),
      Map.entry("tensor_get_string", "readStrings"), Map.entry("tensor_set_string", "writeStrings"),
      Map.entry("session_create", "OrtSessionFFM.create"), Map.entry("session_create_from_memory", "OrtSessionFFM.create"),
      Map.entry("session_wrap", "OrtSessionFFM.wrap"), Map.entry("session_run", "run"), Map.entry("session_get_node", "nodes"),
      Map.entry("session_create_tensor", "allocate"), Map.entry("session_end_profile", "endProfile"), Map.entry("runtime_create", "OrtRuntimeFFM.create"),
      Map.entry("runtime_register_ep", "registerEp"), Map.entry("stream_create", "OrtStreamFFM.create"),
      Map.entry("stream_synchronize", "synchronize"), Map.entry("stream_wait", "OrtStreamFFM.await"),
      Map.entry("event_create", "OrtEventFFM.create"), Map.entry("event_record", "record"),
      Map.entry("event_wait", "await"), Map.entry("event_query", "isDone"),
      Map.entry("runtime_find_device", "device"), Map.entry("device_get_counters", "counters"),
      Map.entry("device_get_memory", "memory"), Map.entry("device_trim", "trim"),
      Map.entry("stream_get_native", "nativeStream"), Map.entry("stream_wait_native", "OrtStreamFFM.await"),
      Map.entry("stream_signal_native", "signal"), Map.entry("stream_wait_semaphore", "OrtStreamFFM.await"),
      Map.entry("stream_signal_semaphore", "signal"), Map.entry("external_memory_import", "OrtExternalMemoryFFM.create"),
      Map.entry("external_memory_view", "value"), Map.entry("semaphore_import", "OrtSemaphoreFFM.create"),
      Map.entry("device_check_import", "OrtExternalMemoryFFM.check"), Map.entry("tensor_compare", "compare"),
      Map.entry("binding_create", "createBinding"), Map.entry("session_get_metadata", "metadata"),
      Map.entry("batch_create", "OrtBatchFFM.create"), Map.entry("batch_join", "join"), Map.entry("batch_leave", "leave"),
      Map.entry("batch_set_input", "setInput"), Map.entry("batch_run", "run"), Map.entry("batch_take_output", "getOutput"),
      Map.entry("batch_save_state", "saveState"), Map.entry("batch_submit", "submit"), Map.entry("batch_step", "step"),
      // what C gives in a struct or by a constant
      Map.entry("graph_limit", "Options.graphs"), Map.entry("intra_op_threads", "intraOp"),
      Map.entry("inter_op_threads", "interOp"), Map.entry("ort_library", "ortLibrary"), Map.entry("ort_api", "ortApi"),
      Map.entry("ort_api_base", "ortApiBase"), Map.entry("ort_session", "ortSession"), Map.entry("ort_value", "ortValue"),
      Map.entry("input_axes", "Options.inputAxis"), Map.entry("output_axes", "Options.outputAxis"),
      Map.entry("most_rows", "mostRows"), Map.entry("IOBIND_BATCH_ALL", "setShared"), Map.entry("IOBIND_BATCH_NO_AXIS", "none"),
      Map.entry("IOBIND_SESSION_PLACEMENT", "Options.placement"), Map.entry("IOBIND_SESSION_STRICT", "Options.strict"),
      Map.entry("IOBIND_RUNTIME_SOFTWARE_DEVICES", "OrtRuntimeFFM.Options.softwareDevices"),
      Map.entry("IOBIND_RUNTIME_POOLS", "OrtRuntimeFFM.Options.pools"),
      Map.entry("IOBIND_SESSION_IDENTIFY", "Options.identify"),
      Map.entry("IOBIND_DLPACK_COPY_STRIDED", "Dlpack.COPY_STRIDED"));
  /** What libiobind quotes, such as a path or a name of the model. An apostrophe that a letter follows does not end it. */
  private static final String QUOTED = "(?<!\\w)'(?:[^']|'(?=\\w))*+'";
  private static final String NAME = "(?<![\\w'/\\\\.-])(?:iobind_)?(?<name>[A-Za-z]+(?:_[A-Za-z]+)+)(?![\\w'/\\\\-]|\\.\\w)";
  private static final String HUGE = "(?<![\\w/\\\\.-])(?<!\\.\\. )(?<huge>\\d{19,20})(?![\\w/\\\\])";
  private static final Pattern WORD = Pattern.compile(QUOTED + "|" + NAME + "|" + HUGE + "|tensor is NULL");

  private Texts() {}

  /** A text of the user's that ends with a NUL, and has none inside. */
  static MemorySegment allocate(Arena arena, String text, String what) {
    if (text == null) throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, what + ": it is null");
    int nul = text.indexOf(0);
    if (nul >= 0) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT,
          what + ": it has a NUL at " + nul + ", where ONNX Runtime would end it");
    }
    try {
      ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text)); // which takes no lone surrogate
      MemorySegment segment = arena.allocate(bytes.remaining() + 1L);
      return segment.copyFrom(MemorySegment.ofBuffer(bytes));
    } catch (CharacterCodingException e) {
      throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, what + ": it has half of a surrogate pair, which no UTF-8 has");
    }
  }

  /**
   * A message of libiobind: in the names and words of here, and sizes that a negative number became as that number. What is in
   * quotes, or part of a path, is the user's and stays as it is.
   */
  static String inJava(String message) {
    return WORD.matcher(message).replaceAll(match -> Matcher.quoteReplacement(word(match)));
  }

  private static String word(MatchResult match) {
    String whole = match.group();
    if (match.group("name") != null) return NAMES.getOrDefault(match.group("name"), whole);
    if (match.group("huge") != null) return negative(whole);
    return whole.equals("tensor is NULL") ? "value is null" : whole;
  }

  private static String negative(String number) {
    try {
      return Long.toString(Long.parseUnsignedLong(number));
    } catch (NumberFormatException e) {
      return number;
    }
  }

  /** A file that native code opens by its path, which it cannot inside a zip file or another file system of Java's. */
  static String path(Path path, String what) {
    Objects.requireNonNull(path, () -> what + ": the path is null");
    if (path.getFileSystem() == FileSystems.getDefault()) return path.toString();
    throw new OrtFFMException(OrtStatus.INVALID_ARGUMENT, what + ": expected a file of the system, got '" + path + "' in a file system of "
        + "'" + path.getFileSystem().provider().getScheme() + "': copy it into a file");
  }
}

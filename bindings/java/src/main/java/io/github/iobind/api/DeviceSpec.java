package io.github.iobind.api;

import java.util.Arrays;
import java.util.Objects;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Names a device, or a list of devices, of which the first that works is selected.
 *
 * <p>{@code cpu}, {@code cuda[:N]}, {@code webgpu[:N]}, {@code dml[:N]}, {@code openvino[:N]}, {@code ggml[:N]},
 * {@code vdev[:N]}; {@code gpu[:N]} and {@code npu[:N]} for a device whose memory or hardware is one; {@code ep=NAME[:N]} by
 * ONNX Runtime's name of the execution provider; {@code vendor=0xHHHH[:N]} by PCI vendor id. N counts from 0. The suffix
 * {@code /pinned} means the device's host-accessible memory. Example: {@code "cuda,webgpu,cpu"}.
 *
 * <p>Specs of the same text are equal.
 *
 * @param text the spec; it is resolved and checked when it is used
 * @param type the required hardware, also checked when the spec is used; null: any
 */
public record DeviceSpec(String text, DeviceInfo.@Nullable Hardware type) {
  /** The CPU and its memory. */
  public static final DeviceSpec CPU = new DeviceSpec("cpu");

  /**
   * A spec.
   *
   * @throws IllegalArgumentException the text is blank
   */
  public DeviceSpec {
    Objects.requireNonNull(text, "text");
    if (text.isBlank()) throw new IllegalArgumentException("a device spec is not blank: say \"cpu\" or \"cuda:0\"");
  }

  /**
   * A spec of a device of any hardware.
   *
   * @param text such as "webgpu:0" or "cuda,cpu"
   * @throws IllegalArgumentException the text is blank
   */
  public DeviceSpec(String text) {
    this(text, null);
  }

  /**
   * A device by its name, its hardware and its number.
   *
   * @param name such as "cuda", or "ep=NAME"
   * @param type the required hardware: if the device has another one, the use of the spec fails with WRONG_DEVICE
   * @param id from 0
   * @throws IllegalArgumentException the name is blank, or has a number or several devices; the id is negative
   */
  public DeviceSpec(String name, DeviceInfo.Hardware type, int id) {
    this(text(name, id), Objects.requireNonNull(type, "type"));
  }

  private static String text(String name, int id) {
    if (name.isBlank() || name.contains(":") || name.contains(",") || id < 0) {
      throw new IllegalArgumentException("expected the name of one device and a number from 0, such as \"cuda\" and 0, got \"" + name
          + "\" and " + id);
    }
    return name.equals("cpu") && id == 0 ? name : name + ":" + id;
  }

  /**
   * A spec by its text.
   *
   * @param text such as "webgpu:0" or "cuda,cpu"
   * @return the spec
   */
  public static DeviceSpec of(String text) {
    return new DeviceSpec(text);
  }

  /**
   * A CUDA device.
   *
   * @param ordinal from 0
   * @return the spec
   */
  public static DeviceSpec cuda(int ordinal) {
    return new DeviceSpec("cuda:" + ordinal);
  }

  /**
   * A WebGPU device.
   *
   * @param ordinal from 0
   * @return the spec
   */
  public static DeviceSpec webgpu(int ordinal) {
    return new DeviceSpec("webgpu:" + ordinal);
  }

  /**
   * The host-accessible memory of this device, or of each device of this list; on CUDA this is pinned memory. The CPU has none.
   *
   * @return this spec, each entry of it with the suffix
   */
  public DeviceSpec pinned() {
    return new DeviceSpec(Arrays.stream(text.split(",", -1)).map(one -> one.endsWith("/pinned") ? one : one + "/pinned")
        .collect(Collectors.joining(",")), type);
  }

  /** Whether the texts are equal. */
  @Override
  public boolean equals(Object other) {
    return other instanceof DeviceSpec spec && text.equals(spec.text);
  }

  @Override
  public int hashCode() {
    return text.hashCode();
  }

  /** The text of the spec. */
  @Override
  public String toString() {
    return text;
  }
}

package io.github.iobind.api;

/** A device's memory, resolved. */
record Place(long device, int memory, DeviceSpec spec, DeviceInfo.Hardware hardware, int flags) {
  static final int DEFAULT = 0;
  static final int HOST_ACCESSIBLE = 1;

  @Override
  public boolean equals(Object other) {
    return this == other || (other instanceof Place place && device == place.device && memory == place.memory);
  }

  @Override
  public int hashCode() {
    return Long.hashCode(device) + memory;
  }

  boolean isHostReadable() {
    return memory == HOST_ACCESSIBLE || (flags & 1 << DeviceInfo.Capability.HOST_MEMORY.ordinal()) != 0;
  }
}

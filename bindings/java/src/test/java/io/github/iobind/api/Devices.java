package io.github.iobind.api;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.Arrays;

/** Skips what needs a device that is not there; where IOBIND_REQUIRE names it, that is a failure. */
final class Devices {
  private Devices() {}

  static void require(OrtRuntimeFFM runtime, String device) {
    try {
      runtime.device(DeviceSpec.of(device));
    } catch (OrtFFMException e) {
      String required = System.getenv().getOrDefault("IOBIND_REQUIRE", "");
      if (Arrays.asList(required.split(",")).contains(device)) throw e;
      assumeTrue(false, e.getMessage());
    }
  }
}

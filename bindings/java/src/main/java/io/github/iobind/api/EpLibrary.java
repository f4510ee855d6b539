package io.github.iobind.api;

/**
 * An execution provider's library that was found, whether it is in use or not.
 *
 * @param name the name under which it is registered
 * @param path its file; "" if the host program registered it
 * @param status OK, or the reason why it is not in use
 * @param message "" or the reason
 */
public record EpLibrary(String name, String path, OrtStatus status, String message) {}

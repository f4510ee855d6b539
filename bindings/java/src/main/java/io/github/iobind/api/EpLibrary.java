package io.github.iobind.api;

/**
 * An execution provider's library that was found, in use or not.
 *
 * @param name the name it is registered under
 * @param path its file; "" where the host program registered it
 * @param status OK, or why it is not in use
 * @param message "" or the reason
 */
public record EpLibrary(String name, String path, OrtStatus status, String message) {}

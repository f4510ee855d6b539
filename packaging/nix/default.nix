# Library, tool and virtual accelerator, out of the clone that this file is in: nix-build packaging/nix
{ pkgs ? import <nixpkgs> { } }:
pkgs.stdenv.mkDerivation {
  pname = "iobind";
  version = "1.0.0";
  src = pkgs.lib.cleanSource ../..;
  outputs = [ "out" "dev" ];
  nativeBuildInputs = [ pkgs.cmake pkgs.ninja pkgs.pkg-config ];
  buildInputs = [ pkgs.jansson pkgs.libpng pkgs.libzip pkgs.popt ];
  cmakeFlags = [
    "-DIOBIND_WITH_PNG=ON"
    "-DIOBIND_BUILD_TESTS=OFF"
    "-DIOBIND_BUILD_BENCH=OFF"
    "-DIOBIND_BUILD_EXAMPLES=OFF"
  ];
  meta = {
    description = "Tensors that stay where the model runs: I/O binding for ONNX Runtime, which is loaded at run time";
    license = pkgs.lib.licenses.mit;
    mainProgram = "iobind";
    platforms = pkgs.lib.platforms.linux;
  };
}

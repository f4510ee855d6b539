# Library, tool and virtual accelerator, on Linux. HOMEBREW_IOBIND_ARCHIVE is the address of the archive that scripts/package source makes:
#   brew install --formula packaging/homebrew/iobind.rb
class Iobind < Formula
  desc "Tensors that stay where the model runs: I/O binding for ONNX Runtime"
  url ENV.fetch("HOMEBREW_IOBIND_ARCHIVE")
  version "1.0.0"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "jansson"
  depends_on "libpng"
  depends_on "libzip"
  depends_on :linux
  depends_on "popt"

  def install
    system "cmake", "-G", "Ninja", "-S", ".", "-B", "build", *std_cmake_args, "-DIOBIND_WITH_PNG=ON",
           "-DIOBIND_BUILD_TESTS=OFF", "-DIOBIND_BUILD_BENCH=OFF", "-DIOBIND_BUILD_EXAMPLES=OFF"
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match "iobind #{version}", shell_output("#{bin}/iobind --version")
  end
end

/* libnvrtc.so.13: ORT's EP of 1.27 is linked to it, but uses nothing of it. */
extern const int vcuda_nvrtc;
__attribute__((visibility("default"))) const int vcuda_nvrtc = 13;

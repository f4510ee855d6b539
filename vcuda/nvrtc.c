/* libnvrtc.so.13: ORT 1.27's EP is linked to it, but calls no function of it. */
extern const int vcuda_nvrtc;
__attribute__((visibility("default"))) const int vcuda_nvrtc = 13;

/* libcurand.so.10: ORT's EP is linked to it, but calls no function of it. */
extern const int vcuda_curand;
__attribute__((visibility("default"))) const int vcuda_curand = 10;

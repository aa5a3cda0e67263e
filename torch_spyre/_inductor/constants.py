"""Constants of the device's number formats."""

FP8_E4M3FN_MAX = 448.0  #: largest finite float8_e4m3fn
FP8_E5M2_MAX = 57344.0  #: largest finite float8_e5m2

#include "base/error.h"

namespace spyre {

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::user:
      return "user error";
    case Fault::program:
      return "program error";
    case Fault::unimplemented:
      return "not implemented";
    case Fault::configuration:
      return "configuration error";
    case Fault::system:
      return "system error";
    case Fault::out_of_memory:
      return "out of device memory";
  }
  return "unknown fault";
}

}  // namespace spyre

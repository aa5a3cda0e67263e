// Options: what the environment asks of this folder, read once.
#pragma once

#include <cstdint>
#include <string>

namespace spyre::engine {

/// The environment's wishes. README.md lists the variables.
struct Options {
  bool cache = true;                  ///< SPYRE_CACHE
  std::string cache_dir;              ///< SPYRE_CACHE_DIR; empty: no place known, no cache
  int64_t cache_bytes = 0;            ///< SPYRE_CACHE_MB: what the directory may hold
  int64_t instances = 0;              ///< SPYRE_INSTANCES: kept per executor
  bool verify = false;                ///< SPYRE_VERIFY
  std::string dump_dir;               ///< SPYRE_DUMP
  uint64_t plan_seed = 0;             ///< SPYRE_PLAN_SEED: random legal plans
  bool repack = true;                 ///< SPYRE_REPACK
  int64_t repack_bytes = -1;          ///< SPYRE_REPACK_MB, per device; -1: a quarter of its memory
  bool ieee = false;                  ///< SPYRE_NUMERICS=ieee
  static Options from_environment();  ///< throws Error(configuration)
};

/// Of the process: from_environment() at first use.
const Options& options();
/// For tests and for embedders that set them before anything runs; also resets compiler_hash().
void set_options(const Options& options);

/// Hash of the sources that decide about code (made by the build) and of the options that do.
std::string code_hash();

/// Tells a person. See set_warning_hook() in engine.h.
void warn(const std::string& message);

}  // namespace spyre::engine

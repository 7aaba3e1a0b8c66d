#include "dropin/rdmacm/verbs_table.h"

#include <cerrno>
#include <string>

namespace uroce::dropin::rdmacm {
namespace {

std::string text_of(uint32_t version, uint32_t size, uint32_t step_size, uint32_t cxx) {
  return "version " + std::to_string(version) + " (" + std::to_string(size) + " and " + std::to_string(step_size) +
         " bytes, C++ library of " + std::to_string(cxx) + ")";
}

}  // namespace

Result<void> check(const VerbsTable& table) {
  constexpr uint32_t kSize = sizeof(VerbsTable);
  constexpr uint32_t kStepSize = sizeof(QueuePair::Step);
  if (table.version == kVerbsTableVersion && table.size == kSize && table.step_size == kStepSize &&
      table.cxx == kCxxLibrary) {
    return {};
  }
  return fail(ELIBACC, "librdmacm.so.1 needs " + text_of(kVerbsTableVersion, kSize, kStepSize, kCxxLibrary) +
                           " of the private interface of uroce's libibverbs.so.1, but the one that is loaded has " +
                           text_of(table.version, table.size, table.step_size, table.cxx) +
                           "; use both libraries of one installation, as uroce-run does");
}

}  // namespace uroce::dropin::rdmacm

#pragma once

#include <stdexcept>
#include <utility>

#include "uroce/error.h"

namespace uroce::nvmf {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}

}  // namespace uroce::nvmf

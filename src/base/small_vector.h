// SmallVector: a sequence whose first elements need no heap. For what every step of a program makes anew: a heap block
// a step costs more than many steps' work.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <vector>

namespace spyre::base {

/// Grows only. T is copied as bytes; up to `inside` elements live in the object, more on the heap.
template <typename T, size_t inside>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  SmallVector() = default;
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;

  void push_back(const T& value) { emplace_back() = value; }
  /// A new element at the end, made by its default constructor.
  T& emplace_back() {
    if (size_ < inside) return *new (room_ + size_++ * sizeof(T)) T;  // T() would clear it first
    if (size_ == inside) more_.assign(inside_data(), inside_data() + inside);
    ++size_;
    return more_.emplace_back();
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ <= inside ? inside_data() : more_.data(); }
  const T* data() const { return const_cast<SmallVector*>(this)->data(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

 private:
  T* inside_data() { return std::launder(reinterpret_cast<T*>(room_)); }

  size_t size_ = 0;
  alignas(T) std::byte room_[inside * sizeof(T)];
  std::vector<T> more_;
};

}  // namespace spyre::base

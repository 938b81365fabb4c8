// A vector of a table as a range; an absent vector is an empty one (FlatBuffers leaves those out).
#pragma once

#include "runtime/plan/plan_generated.h"

namespace m3c::plan {

template <typename T> class List {
public:
  explicit List(const flatbuffers::Vector<T> *vector) : vector(vector) {}
  uint32_t size() const { return vector ? vector->size() : 0; }
  bool empty() const { return size() == 0; }
  auto operator[](uint32_t index) const { return vector->Get(index); }

  class Iterator {
  public:
    Iterator(const List &list, uint32_t index) : list(&list), index(index) {}
    auto operator*() const { return (*list)[index]; }
    Iterator &operator++() {
      ++index;
      return *this;
    }
    bool operator==(const Iterator &other) const { return index == other.index; }

  private:
    const List *list;
    uint32_t index;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

private:
  const flatbuffers::Vector<T> *vector;
};

/// `list(table->field())`.
template <typename T> List<T> list(const flatbuffers::Vector<T> *vector) { return List<T>(vector); }

} // namespace m3c::plan

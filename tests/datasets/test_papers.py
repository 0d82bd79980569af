"""The tables of [Zari22] as its section 4.2 counts them, checked against their sources."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.datasets import papers


def test_every_digit_is_there_once_training_images_first(papers_data):
    images, labels = papers.mnist(papers_data)
    assert images.shape == (70_000, 784)
    assert images.dtype == np.uint8
    assert np.bincount(labels[:60_000]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    raw = gzip.decompress((papers_data / "mnist" / "t10k-images-idx3-ubyte.gz").read_bytes())
    assert images[60_000:].tobytes() == raw[16:]
    assert int((images.std(axis=0) == 0).sum()) == 65


def test_the_zeros_and_ones_are_those_of_all_digits(papers_data):
    images, labels = papers.mnist(papers_data)
    split = papers.mnist_zeros_and_ones(papers_data)
    np.testing.assert_array_equal(np.rint(255 * split.X), images[:60_000][labels[:60_000] <= 1])


def test_the_faces_are_one_a_person(papers_data):
    faces = papers.lfw(papers_data)
    assert faces.shape == (5749, 450)
    assert faces.dtype == np.uint8
    assert len(np.unique(faces, axis=0)) == 5749 - 2  # two people appear under two names


def test_a_column_of_the_census_is_the_sum_of_two_others(papers_data):
    names, table = papers.census(papers_data)
    assert table.shape == (1080, 13)
    column = dict(zip(names, table.T, strict=True))
    np.testing.assert_array_equal(column["PTOTVAL"], column["POTHVAL"] + column["PEARNVAL"])
    assert np.linalg.matrix_rank(table - table.mean(axis=0)) == 12


def test_categories_of_adult_are_numbered_by_their_names(papers_data):
    names, table = papers.adult_codes(papers_data)
    assert table.shape == (48_842, 14)
    sex, education, years = (table[:, names.index(n)] for n in ("sex", "education", "education-num"))
    assert sex[:5].tolist() == [1, 1, 1, 1, 0]  # Male, Male, Male, Male, Female
    assert education[:3].tolist() == [9, 9, 11]  # Bachelors, Bachelors, HS-grad after 10th, 11th, 12th, 1st-4th, ...
    assert len(set(zip(education.tolist(), years.tolist(), strict=True))) == 16  # the same information twice
    unknown = table[:, names.index("workclass")] == 0  # ? comes before the letters
    assert int(unknown.sum()) == 2799


@pytest.mark.parametrize("loader", [papers.mnist, papers.lfw, papers.census, papers.adult_codes])
def test_a_folder_without_the_data_is_refused_in_one_line(loader, tmp_path):
    with pytest.raises(Refusal, match="not found: set data= or DOSIMETER_DATA") as refusal:
        loader(tmp_path)
    assert "\n" not in str(refusal.value)

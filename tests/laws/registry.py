"""The laws of all tasks in one list: for each kind of model, the tests that hold it to each law, or why there are none.

A new task or kind of model fails `test_registry.py` until it has a row here. `docs/concepts.md` shows the same table;
`python -m tests.laws.registry` prints it.
"""

from collections.abc import Mapping
from typing import NamedTuple

LAWS: Mapping[str, str] = {
    "padding": "neither the values nor the amount of padding has an effect",
    "rows": "rows are read alike in any order and company",
    "batch": "an answer does not depend on its batch",
    "probabilities": "probabilities sum to one",
    "equations": "the model computes its paper's equations, or what enumeration gives",
    "learning": "every parameter learns",
    "gradients": "gradients are those of finite differences",
    "resume": "a killed run ends with the same bytes",
    "ranks": "two processes learn what one does",
    "memory": "batches that do not fit in memory are split, with the same loss",
}


class Without(NamedTuple):
    """Why a law says nothing about a kind of model."""

    reason: str


Proof = tuple[str, ...] | Without
"""Tests, as `file::test` below `tests/`; a promise is named by its task: `promises/…::task-promise`."""

COUNTED = Without("counted, not trained")
ONE_AT_A_TIME = Without("reads one sentence at a time")


def _promises(subject: str) -> dict[str, Proof]:
    return {law: (f"promises/test_promises.py::{subject}-{law}",) for law in ("resume", "ranks", "memory")}


def _estimated(subject: str) -> dict[str, Proof]:
    return {
        "learning": COUNTED,
        "gradients": COUNTED,
        "resume": (f"promises/test_estimated.py::{subject}-resume",),
        "ranks": (f"promises/test_estimated.py::{subject}-ranks",),
        "memory": Without("no training batches"),
    }


def _common(file: str) -> dict[str, Proof]:
    """The laws that the file of a task tests over the list of all its models."""
    return {
        "padding": (f"laws/{file}::test_padding_affects_nothing",),
        "rows": (f"laws/{file}::test_rows_are_read_alike_in_any_order_and_company",),
        "learning": (f"laws/{file}::test_every_parameter_learns",),
        "gradients": (f"laws/{file}::test_gradients_are_those_of_finite_differences",),
    }


class Row(NamedTuple):
    """A kind of model, as `model.kind` says it (with `model.network.kind` after a colon), and its proofs by law."""

    task: str
    kind: str
    proofs: Mapping[str, Proof]


REGISTRY = (
    Row(
        "translation",
        "encoder-decoder",
        {
            **{
                law: (f"laws/test_laws.py::test_law[{name}]",)
                for law, name in {
                    "padding": "padding",
                    "rows": "row",
                    "batch": "batch",
                    "probabilities": "probabilities",
                    "equations": "fidelity",
                }.items()
            },
            "learning": ("unit/models/test_model.py::test_every_parameter_learns",),
            "gradients": ("laws/test_gradients.py::test_gradient_is_the_slope",),
            **_promises("translation"),
        },
    ),
    Row(
        "translation",
        "phrase-based",
        {
            "padding": ONE_AT_A_TIME,
            "rows": ("promises/test_estimated.py::phrases-order",),
            "batch": (
                "integration/test_statistical_translation.py::test_a_translation_does_not_depend_on_its_company",
            ),
            "probabilities": Without("scores are not probabilities"),
            "equations": ("unit/statistics/test_stack_decoder.py::test_exhaustive_search_is_enumeration",),
            **_estimated("phrases"),
        },
    ),
    Row(
        "language-modelling",
        "language-model",
        {
            "padding": ("unit/tasks/test_language_modelling.py::test_the_loss_of_lines_is_the_sum_over_single_lines",),
            "rows": ("unit/models/test_language_model.py::test_rows_are_independent_and_can_be_chosen",),
            "batch": ("unit/engine/test_text_generator.py::test_scores_are_those_of_single_tokens_in_bounded_batches",),
            "probabilities": ("unit/models/test_language_model.py::test_probabilities_sum_to_one",),
            "equations": ("unit/models/test_language_model.py::test_the_equations_of_awd_lstm",),
            "learning": ("unit/models/test_language_model.py::test_every_parameter_learns",),
            "gradients": ("unit/models/test_language_model.py::test_gradients_are_those_of_finite_differences",),
            **{
                law: (
                    f"promises/test_promises.py::language model of lines-{law}",
                    f"promises/test_promises.py::language model of running text-{law}",
                )
                for law in ("resume", "ranks", "memory")
            },
        },
    ),
    Row(
        "language-modelling",
        "language-model: ngram",
        {
            "padding": ("unit/models/test_ngram.py::test_ignored_targets_cost_nothing",),
            "rows": ("unit/models/test_ngram.py::test_a_batch_a_chunk_and_a_choice_of_rows_change_nothing",),
            "batch": ("unit/models/test_ngram.py::test_a_batch_a_chunk_and_a_choice_of_rows_change_nothing",),
            "probabilities": ("unit/models/test_ngram.py::test_probabilities_are_those_of_the_tables_and_sum_to_one",),
            "equations": (
                "unit/statistics/test_kneser_ney.py::"
                "test_probabilities_are_those_of_the_plain_equations_and_sum_to_one",
            ),
            **_estimated("n-grams"),
        },
    ),
    Row(
        "tagging",
        "tagger",
        {
            **_common("test_taggers.py"),
            "batch": ("unit/engine/test_tagger.py::test_an_answer_does_not_depend_on_its_batch",),
            "probabilities": ("laws/test_taggers.py::test_marginals_are_probabilities",),
            "equations": ("laws/test_taggers.py::test_the_loss_is_that_of_probabilities_over_all_label_sequences",),
            **_promises("tagging"),
        },
    ),
    Row(
        "tagging",
        "hidden-markov",
        {
            **_common("test_taggers.py"),
            "batch": ("unit/models/test_hidden_markov.py::test_rows_may_be_computed_in_parts",),
            "probabilities": ("laws/test_taggers.py::test_marginals_are_probabilities",),
            "equations": ("unit/models/test_hidden_markov.py::test_labels_and_probabilities_equal_enumeration",),
            **_estimated("hidden Markov tagger"),
        },
    ),
    Row(
        "embedding",
        "sentence-encoder",
        {
            **_common("test_sentence_encoders.py"),
            "batch": ("unit/engine/test_sentence_vectors.py::test_a_vector_does_not_depend_on_its_batch",),
            "probabilities": Without("vectors, whose lengths have a law of their own"),
            "equations": ("unit/objectives/test_contrastive.py::test_the_loss_is_the_formula",),
            **_promises("embedding"),
        },
    ),
    Row(
        "recommendation",
        "recommender",
        {
            **_common("test_recommenders.py"),
            "batch": ("unit/engine/test_recommender.py::test_an_answer_does_not_depend_on_the_batch",),
            "probabilities": ("laws/test_recommenders.py::test_scores_are_log_probabilities_of_items",),
            "equations": (
                "unit/layers/test_time_attention.py::test_attention_is_the_papers_with_the_projection_factored",
                "unit/layers/test_negatives.py::test_the_loss_is_the_papers_equation",
            ),
            **_promises("recommendation"),
        },
    ),
    Row(
        "recommendation",
        "recommender: popularity",
        {
            **_common("test_recommenders.py"),
            "batch": ("unit/engine/test_recommender_plainly.py::test_recommendations_follow_their_rules",),
            "probabilities": ("laws/test_recommenders.py::test_scores_are_log_probabilities_of_items",),
            "equations": ("laws/test_recommenders.py::test_a_user_without_history_gets_popular_items",),
            **_estimated("popularity"),
        },
    ),
    Row(
        "recognition",
        "recogniser",
        {
            **_common("test_recognisers.py"),
            "batch": ("laws/test_recognisers.py::test_texts_do_not_depend_on_the_batch",),
            "probabilities": ("laws/test_recognisers.py::test_probabilities_sum_to_one",),
            "equations": (
                "unit/layers/test_log_mel.py::test_features_are_those_of_the_definition",
                "unit/layers/test_ctc.py::test_the_loss_is_that_of_all_alignments",
                "unit/search/test_ctc_prefix.py::test_a_wide_beam_equals_enumeration",
                "unit/search/test_ctc_scoring.py::test_the_score_of_a_prefix_is_that_of_all_texts_that_begin_with_it",
            ),
            **_promises("recognition"),
        },
    ),
    Row(
        "captioning",
        "captioner",
        {
            "padding": ("laws/test_captioners.py::test_padding_of_captions_and_rows_that_fill_a_shape_affect_nothing",),
            "rows": ("laws/test_captioners.py::test_an_image_is_read_alike_in_any_order_and_company",),
            "batch": ("unit/engine/test_captioner.py::test_a_caption_does_not_depend_on_its_company",),
            "probabilities": ("laws/test_captioners.py::test_probabilities_sum_to_one",),
            "equations": (
                "unit/models/test_captioner.py::test_patches_are_products_of_their_pixels",
                "unit/models/test_captioner.py::test_a_grid_is_its_stages_one_after_the_other",
                "unit/models/test_captioner.py::test_the_doubly_stochastic_term_is_the_equation_of_the_paper",
                "unit/layers/test_reinforce.py::test_expected_gradient_is_the_gradient_of_the_expected_loss",
            ),
            "learning": ("laws/test_captioners.py::test_every_parameter_learns",),
            "gradients": ("laws/test_captioners.py::test_gradients_are_those_of_finite_differences",),
            **_promises("captioning"),
        },
    ),
)


def as_table() -> str:
    """The list as a table of Markdown: ✓ where a test holds a model to a law, – where the law says nothing."""
    lines = [f"| task | model | {' | '.join(LAWS)} |", "|---" * (2 + len(LAWS)) + "|"]
    for row in REGISTRY:
        marks = ["–" if isinstance(row.proofs[law], Without) else "✓" for law in LAWS]
        lines.append(f"| {row.task} | `{row.kind}` | {' | '.join(marks)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_table())

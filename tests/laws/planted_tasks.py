"""Bugs to plant in the tasks beside translation, and the test of the suite that must notice each of them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from calque.data import (
    caption_batch,
    recognition_preparation,
    resampling,
    sentence_pair_batch,
    sequence_batch,
    sequence_preparation,
    speech_batch,
)
from calque.engine import captioner_boxes
from calque.engine.recommender import Recommender
from calque.evaluation import attention_boxes, nearest, ranking, retrieval
from calque.layers import attention, ctc, log_mel, pooling, reinforce, spec_augment, time_attention
from calque.layers.label_chain import LabelChain
from calque.layers.negatives import NegativesOutput
from calque.models import captioner, images, speech_inputs
from calque.models.hidden_markov import HiddenMarkovTagger
from calque.models.recommender import RecommenderModel
from calque.models.sentence_encoder import SentenceEncoderModel, Tower
from calque.objectives import contrastive
from calque.search import ctc_prefix, ctc_scoring
from calque.statistics import (
    diagonal,
    hidden_markov,
    ibm2,
    mert,
    phrase_extraction,
    phrase_model,
    phrase_scores,
    phrase_table,
    phrase_tuning,
    stack_decoder,
    suffixes,
    tag_ngrams,
    tag_tables,
)
from calque.tasks import embedding, recognition
from tests.laws import captioners, recognisers, recommenders, sentence_encoders
from tests.laws import test_captioners as captioning_laws
from tests.laws import test_recognisers as recognition_laws
from tests.laws import test_recommenders as recommendation_laws
from tests.laws import test_sentence_encoders as sentence_laws
from tests.laws.planting import Plant, edited
from tests.unit.data import test_caption_batch, test_recognition_preparation, test_resampling, test_sequence_preparation
from tests.unit.engine import test_captioner as test_captioner_engine
from tests.unit.engine import test_recommender_plainly, test_sentence_vectors
from tests.unit.evaluation import test_captions, test_nearest, test_ranking, test_retrieval
from tests.unit.experiment import test_task_judges
from tests.unit.layers import (
    test_attention,
    test_ctc,
    test_label_chain,
    test_log_mel,
    test_negatives,
    test_reinforce,
    test_time_attention,
)
from tests.unit.models import test_captioner, test_hidden_markov
from tests.unit.objectives import test_contrastive
from tests.unit.search import test_ctc_prefix, test_ctc_scoring
from tests.unit.statistics import test_hidden_markov as test_markov
from tests.unit.statistics import (
    test_ibm2,
    test_mert,
    test_phrase_tables,
    test_stack_decoder,
    test_suffixes,
    test_tag_ngrams,
)
from tests.unit.tasks import test_embedding

NOTHING: Mapping[str, Any] = MappingProxyType({})


class TaskBug(NamedTuple):
    """A bug, and the test that fails with it; of the test's arguments, those that are no fixtures."""

    plant: Plant
    test: Callable[..., None]
    arguments: Mapping[str, Any] = NOTHING


def _bugs(test: Callable[..., None], arguments: Mapping[str, Any] | None = None, **plants: Plant) -> dict[str, TaskBug]:
    """Several bugs that one test notices; underscores in their names are spaces."""
    return {name.replace("_", " "): TaskBug(plant, test, arguments or NOTHING) for name, plant in plants.items()}


TRIGRAMS = {"config": test_hidden_markov.CONFIGS[4]}

HIDDEN_MARKOV = {
    **_bugs(
        test_markov.test_everything_equals_the_sum_over_all_paths,
        transitions_turned=edited(
            hidden_markov._trellis,
            "forward[t - 1, :count] @ model.transitions",
            "forward[t - 1, :count] @ model.transitions.T",
        ),
        backward_scores_without_scale=edited(
            hidden_markov._trellis, "backward[t, :count] / scales[t, :count]", "backward[t, :count]"
        ),
        shorter_sentences_go_on=edited(hidden_markov._batches, "is_symbol.sum(axis=1)", "np.full(longest, len(rows))"),
        first_states_counted_at_the_end=edited(
            hidden_markov.expected_states, "posteriors[0].sum", "posteriors[-1].sum"
        ),
    ),
    **_bugs(
        test_markov.test_counting_equals_loops_and_finds_the_model,
        sentences_run_into_each_other=edited(
            (hidden_markov.HiddenMarkov, "counted"), "np.flatnonzero(~is_first)", "np.arange(1, len(values))"
        ),
    ),
    **_bugs(
        test_tag_ngrams.test_counts_equal_loops,
        {"order": 3},
        ends_not_counted=edited(tag_ngrams.count_ngrams, "np.concatenate([words, starts + lengths])", "words"),
        boundary_is_the_first_tag=edited(
            tag_ngrams.count_ngrams, "boundary, before = tag_count - 1", "boundary, before = 0"
        ),
        history_backwards=edited(tag_ngrams.count_ngrams, "reversed(range(order))", "range(order)"),
    ),
    **_bugs(
        test_tag_ngrams.test_the_weights_are_those_of_the_papers_pseudo_code,
        occurrence_not_left_out=edited(tag_ngrams.interpolation_weights, "ngrams - 1, totals - 1", "ngrams, totals"),
        each_ngram_votes_once=edited(
            tag_ngrams.interpolation_weights, "weights=counts.ravel()", "weights=(counts.ravel() > 0) * 1.0"
        ),
        ties_go_to_the_longer=edited(
            tag_ngrams.interpolation_weights,
            "np.argmax(np.stack(frequencies), axis=0)",
            "len(frequencies) - 1 - np.argmax(np.stack(frequencies[::-1]), axis=0)",
        ),
    ),
    **_bugs(
        test_tag_ngrams.test_trigrams_are_interpolated_and_back_off,
        unseen_context_is_uniform=edited(
            tag_ngrams.interpolated, "out=shorter", "out=np.full_like(ngrams, 1 / ngrams.shape[-1])"
        ),
        shortened_at_the_wrong_end=edited(
            tag_ngrams._shortened, "range(counts.ndim - order)", "range(order, counts.ndim)"
        ),
    ),
    **_bugs(
        test_suffixes.test_the_tree_equals_counts_of_strings,
        prefixes_instead_of_suffixes=edited(
            (suffixes.Spellings, "from_the_end"), "ends - distance, 0", "ends - self.lengths + distance - 1, 0"
        ),
        deviation_of_the_population=edited(suffixes.grow_suffixes, ", ddof=1", ""),
        smoothing_does_not_sum_to_one=edited(suffixes._smoothed, "/ (1 + theta)", "/ (1 + 2 * theta)"),
    ),
    **_bugs(
        test_suffixes.test_words_have_their_own_frequencies_and_a_little_of_their_suffix,
        {"capitals": True},
        words_at_the_bound_are_not_rare=edited(tag_tables._rare_suffixes, "<= settings.rare", "< settings.rare"),
        rare_words_left_out_are_forgotten=edited(tag_tables._rare_suffixes, " | (corpus.words == UNK)", ""),
        last_character_tells_the_case=edited(
            tag_tables.word_kinds,
            "np.cumsum(spellings.lengths) - spellings.lengths",
            "np.cumsum(spellings.lengths) - 1",
        ),
    ),
    **_bugs(
        test_hidden_markov.test_labels_and_probabilities_equal_enumeration,
        TRIGRAMS,
        posterior_instead_of_likelihood=edited(
            (HiddenMarkovTagger, "forward"), "posteriors - self.states[kinds]", "posteriors"
        ),
        prior_of_the_other_kind=edited(
            (HiddenMarkovTagger, "forward"), "posteriors - self.states[kinds]", "posteriors - self.states[1 - kinds]"
        ),
    ),
    **_bugs(
        test_label_chain.test_sums_marginals_and_best_sequences_equal_enumeration,
        {"second": True},
        pointers_forget_the_label=edited((LabelChain, "viterbi"), "history * labels + torch", "history + 0 * torch"),
        backward_keeps_the_wrong_history=edited((LabelChain, "_backward"), "totals[-1][:, 1:]", "totals[-1][:, :-1]"),
        kind_of_the_word_itself=edited((LabelChain, "_step"), "self._before(t - 1)", "self._before(t)"),
        sum_ends_with_the_batch=edited(
            (LabelChain, "log_partition"), "(self._lengths - 1)", "torch.full_like(self._lengths, len(totals) - 1)"
        ),
    ),
    **_bugs(
        test_hidden_markov.test_suffixes_are_found_as_by_the_estimation,
        suffix_longer_than_the_word=edited((HiddenMarkovTagger, "_suffix_nodes"), " & (lengths >= distance)", ""),
    ),
}

DECODED = {"distortion": 2, "language": True, "reordering": True}
UNORIENTED = {"distortion": None, "language": True, "reordering": False}
PHRASES = {
    **_bugs(
        test_ibm2.test_the_prior_is_the_papers_distribution,
        {"shape": (3, 5), "tension": 4.0},
        positions_from_zero=edited(
            diagonal.distances, "np.arange(1, targets + 1) / targets", "np.arange(targets) / targets"
        ),
        normalised_over_target_words=edited(
            (diagonal.Diagonal, "matrix"), "weights.sum(axis=1, keepdims=True)", "weights.sum(axis=0, keepdims=True)"
        ),
    ),
    **_bugs(
        test_ibm2.test_the_tension_rises_or_falls_to_the_maximum_and_never_for_the_worse,
        {"share": 0.3},
        tension_falls_instead_of_rising=edited(
            (diagonal.Diagonal, "reestimated"), "(expected - distance)", "(distance - expected)"
        ),
    ),
    **_bugs(
        test_ibm2.test_training_equals_plain_python,
        {"dirichlet": None},
        empty_word_pulls_the_tension=edited(
            ibm2._iterate,
            "totals[shape] += by_position.sum(axis=1)",
            "totals[shape] += expected.posteriors.sum(axis=(1, 2))",
        ),
        probabilities_exceed_one=edited((ibm2.DiagonalModel, "prior"), "(1 - self.empty) * self", "self"),
    ),
    **_bugs(
        test_phrase_tables.test_extraction_is_the_definition,
        {"maximum": 3},
        consistent_from_one_side=edited(
            phrase_extraction.extract_phrases, " & (back_lasts[high - low + 1, low] < starts + length)", ""
        ),
        unaligned_words_on_the_left_only=edited(phrase_extraction.extract_phrases, "range(maximum - left)", "range(1)"),
        phrases_across_sentences=edited(
            phrase_extraction.extract_phrases, "(corpus.source_remaining >= length) & ", ""
        ),
        phrases_longer_than_allowed=edited(
            phrase_extraction.extract_phrases, " & (high - low + 1 + left + right <= maximum)", ""
        ),
    ),
    **_bugs(
        test_phrase_tables.test_scores_are_counted_plainly,
        links_summed_instead_of_averaged=edited(phrase_scores.word_weights, " / np.maximum(1, links)", ""),
        directions_swapped=edited(
            phrase_table.extract_table, "frequencies(targets, sources),", "frequencies(sources, targets), "
        ),
    ),
    **_bugs(
        test_phrase_tables.test_orientations_by_definition,
        swaps_look_inside=edited(
            phrase_scores.orientation_counts,
            "is_linked(source_end, target - 1)",
            "is_linked(source_end - 1, target - 1)",
        ),
    ),
    **_bugs(
        test_phrase_tables.test_a_limit_keeps_the_most_likely_translations,
        least_likely_translations_kept=edited(phrase_table._table, "-scores[:, by]", "scores[:, by]"),
    ),
    **_bugs(
        test_stack_decoder.test_exhaustive_search_is_enumeration,
        DECODED,
        jumps_from_the_gap=edited((stack_decoder._Sentence, "extend"), "abs(start - last)", "abs(start - gap)"),
        recombined_without_orientation=edited(
            (stack_decoder._Sentence, "add"), "option.stop, state, option.start, option.after", "option.stop, state"
        ),
        end_of_the_sentence_is_free=edited(
            (stack_decoder._Sentence, "finish"),
            "self.language * self.model.language.score",
            "0 * self.model.language.score",
        ),
        estimates_are_scores=edited(
            (stack_decoder._Sentence, "add"), "option.score + cube.jump", "option.estimate + cube.jump"
        ),
        gaps_grow_beyond_the_limit=edited(
            (stack_decoder._Sentence, "extend"), " or (start != gap and stop - gap > limit)", ""
        ),
        cubes_have_one_row=edited(
            (stack_decoder._Sentence, "fill"), "if column == 0 and row + 1", "if column == 1 and row + 1"
        ),
    ),
    **_bugs(
        test_stack_decoder.test_exhaustive_search_is_enumeration,
        UNORIENTED,
        recombined_without_language=edited(
            (stack_decoder._Sentence, "add"),
            "recombined = cube.coverage, option.stop, state\n",
            "recombined = cube.coverage, option.stop\n",
        ),
        recombined_without_position=edited(
            (stack_decoder._Sentence, "add"),
            "recombined = cube.coverage, option.stop, state\n",
            "recombined = cube.coverage, state\n",
        ),
    ),
    **_bugs(
        test_stack_decoder.test_the_nbest_list_is_in_order_and_without_repetition,
        paths_forget_what_they_gained=edited(stack_decoder.derivations, "rest = gained + gain", "rest = gain"),
    ),
    **_bugs(
        test_stack_decoder.test_the_future_is_the_best_division,
        spans_must_be_divided=edited(
            phrase_model.span_future, "row[stop] = max(row[stop], divided)", "row[stop] = divided"
        ),
    ),
    **_bugs(
        test_stack_decoder.test_unknown_words_are_copied,
        unknown_words_cost_nothing=edited(
            phrase_model.collect_options, "phrases + words + weights[UNKNOWN]", "phrases + words"
        ),
    ),
    **_bugs(
        test_mert.test_the_line_search_is_exact,
        padded_candidates_compete=edited(
            mert.corpus_score,
            "np.where(candidates.exists, candidates.features @ weights, -np.inf)",
            "candidates.features @ weights",
        ),
        envelope_from_the_steepest_line=edited(
            mert.line_search,
            "slopes == slopes.min(axis=1, keepdims=True)",
            "slopes == np.where(candidates.exists, slopes, -np.inf).max(axis=1, keepdims=True)",
        ),
        edge_instead_of_middle=edited(mert._best_interval, "(edges[1:] + edges[:-1]) / 2", "edges[1:]"),
    ),
    **_bugs(
        test_mert.test_optimisation_gains_and_leaves_fixed_weights,
        fixed_weights_move=edited(
            mert.optimise,
            "random.standard_normal((directions, len(start))) * tuned",
            "random.standard_normal((directions, len(start)))",
        ),
    ),
    **_bugs(
        test_mert.test_tuning_keeps_the_best_weights_and_their_scale,
        statistics_of_another_sentence=edited(
            (phrase_tuning.Tuner, "_measure_new"),
            "zip(waiting, self._statistics, rows, strict=True)",
            "zip(waiting, self._statistics, rows[::-1], strict=True)",
        ),
        weights_grow_without_bound=edited((phrase_tuning.Tuner, "_optimise"), "scale / size if size else 1", "3.0"),
    ),
    **_bugs(
        test_phrase_tables.test_of_several_alignments_of_a_phrase_pair_the_best_counts,
        lexical_weight_of_the_last_alignment=edited(
            phrase_scores.lexical_weights,
            "np.maximum.at(best, pairs, sums[starts + lengths] - sums[starts])",
            "best[pairs] = sums[starts + lengths] - sums[starts]",
        ),
    ),
    **_bugs(
        test_stack_decoder.test_what_is_left_is_the_sum_of_all_gaps,
        future_of_the_first_gap_only=edited(
            (stack_decoder._Sentence, "future"),
            "known += self.span_future[place][stop]",
            "known = self.span_future[place][stop]",
        ),
    ),
    **_bugs(
        test_stack_decoder.test_the_best_hypotheses_of_a_stack_survive,
        worst_hypotheses_survive=edited(
            (stack_decoder._Sentence, "fill"),
            "key=lambda hypothesis: -hypothesis.total",
            "key=lambda hypothesis: hypothesis.total",
        ),
    ),
    **_bugs(
        test_mert.test_weights_that_translate_worse_than_expected_are_not_kept,
        last_weights_win=edited(
            (phrase_tuning.Tuner, "tune"), "if best is None or score > best[0]:", "if best or not best:"
        ),
    ),
}

TIMED, STORED = {"network": "timed", "exclude_seen": False}, {"network": "timed", "exclude_seen": True}
RECOMMENDATION = {
    **_bugs(
        recommendation_laws.test_a_prediction_depends_on_earlier_items_only,
        {"network": recommenders.build("time-aware")},
        attention_looks_ahead=edited((time_attention.TimeAttention, "forward"), ".tril()", ".tril(1)"),
    ),
    **_bugs(
        test_time_attention.test_attention_is_the_papers_with_the_projection_factored,
        scores_without_scale=edited(
            (time_attention.TimeAttention, "forward"), "(scores * self.head_width**-0.5)", "scores"
        ),
        keys_of_buckets_as_values=edited(
            (time_attention.TimeAttention, "forward"), "is_bucket) @ bucket_values", "is_bucket) @ bucket_keys"
        ),
    ),
    **_bugs(
        test_time_attention.test_buckets_double,
        buckets_one_too_low=edited(time_attention.time_buckets, "right=True", "right=False"),
        times_seen_from_the_event=edited(
            time_attention.time_buckets, "asked[:, :, None] - times[:, None]", "asked[:, None] - times[:, :, None]"
        ),
    ),
    **_bugs(
        test_sequence_preparation.test_a_batch_has_the_last_items_and_what_follows_each,
        item_predicts_itself=edited(
            sequence_batch.collate_sequences, "torch.from_numpy(read[ITEMS][:, 1:].copy())", "items.clone()"
        ),
        asked_at_the_time_of_the_item=edited(
            sequence_batch.collate_sequences,
            "torch.from_numpy(read[TIMES][:, 1:]",
            "torch.from_numpy(read[TIMES][:, :-1]",
        ),
        first_items_are_read=edited(sequence_batch.last_values, " + lengths - kept", ""),
    ),
    **_bugs(
        test_negatives.test_the_loss_is_the_papers_equation,
        {"loss": "binary"},
        own_items_are_negatives=edited((NegativesOutput, "sampled_losses"), "(-negative) * is_used)", "(-negative))"),
        negatives_are_raised=edited(
            (NegativesOutput, "sampled_losses"), "F.logsigmoid(-negative)", "F.logsigmoid(negative)"
        ),
    ),
    **_bugs(
        recommendation_laws.test_own_items_and_padding_are_never_negatives_nor_targets,
        targets_are_negatives=edited(
            (RecommenderModel, "total_loss"), "torch.cat([history.items[:, :1], targets], dim=1)", "history.items"
        ),
        padding_is_predicted=edited((RecommenderModel, "total_loss"), ".masked_fill(targets == PADDING, 0)", ""),
    ),
    **_bugs(
        recommendation_laws.test_scores_are_log_probabilities_of_items,
        {"model": recommenders.build("transformer")},
        special_pieces_are_recommended=edited(
            (RecommenderModel, "scores"),
            "torch.arange(FIRST_ITEM, device=logits.device)",
            "torch.arange(1, device=logits.device)",
        ),
    ),
    **_bugs(
        test_ranking.test_ranks_are_those_of_sorting,
        {"distinct": 3},
        lucky_ties=edited(ranking.target_ranks, "is_ahead.sum(dim=1)", "1 + (competes & (scores > own)).sum(dim=1)"),
        excluded_items_compete=edited(
            ranking.target_ranks, "competes & ~(scores < own)", "~(scores < own) | ~competes"
        ),
    ),
    **_bugs(
        test_ranking.test_metrics_are_their_definitions,
        gain_of_the_rank_below=edited(ranking.user_statistics, "np.log2(safe + 1)", "np.log2(safe + 2)"),
        cutoff_excluded=edited(ranking.user_statistics, "values <= cutoff", "values < cutoff"),
        missed_targets_are_hits=edited(ranking.user_statistics, "is_hit & (values <= cutoff)", "(values <= cutoff)"),
    ),
    **_bugs(
        test_sequence_preparation.test_the_last_item_is_for_testing_and_the_one_before_for_validation,
        validation_item_is_trained_on=edited(sequence_preparation.training_part, "history[:-2]", "history[:-1]"),
        test_item_is_the_validation_target=edited(
            (sequence_preparation.SequenceNumericaliser, "_validation"), "row[:-1]", "row"
        ),
        popularity_counts_held_out_items=edited(
            (sequence_preparation.SequencePreparation, "learn"),
            "(training_part(items) if self.splits_rows else items for items in values(ITEMS))",
            "values(ITEMS)",
        ),
    ),
    **_bugs(
        test_recommender_plainly.test_a_store_is_ranked_without_a_look_at_the_target,
        STORED,
        target_is_read=edited(
            (Recommender, "rank_store"),
            "self._encoded(items, times=times[:-1], behaviours=behaviours[:-1]",
            "self._encoded([*items, target], times=times, behaviours=behaviours",
        ),
        unknown_target_is_ranked=edited(
            (Recommender, "_rank"), "found.masked_fill(~is_known, MISSED)", "found.masked_fill(~is_known, 1)"
        ),
    ),
    **_bugs(
        test_recommender_plainly.test_recommendations_follow_their_rules,
        TIMED,
        oldest_items_are_read=edited(
            (Recommender, "_encoded"), "known[-self.task.history :]", "known[: self.task.history]"
        ),
        asked_at_the_last_item=edited(
            (Recommender, "batch"), "[*history.times[1:], history.now]", "[*history.times[1:], history.times[-1]]"
        ),
        popularity_without_smoothing=edited(
            (RecommenderModel, "log_popularity"), "exact(self.counts) + 1", "exact(self.counts) + 1e-9"
        ),
    ),
    **_bugs(
        test_recommender_plainly.test_recommendations_follow_their_rules,
        STORED,
        items_not_read_are_not_excluded=edited(
            (Recommender, "_encoded"),
            "sorted({items[place] for place in known})",
            "sorted({items[place] for place in read})",
        ),
    ),
}

JOINT = {"text": (3, 3, 4)}
SPEECH = {
    **_bugs(
        test_ctc.test_ours_equals_pytorchs_with_its_gradient,
        repetitions_skip_the_blank=edited(
            ctc.states_of, "tokens[:, 1:] != tokens[:, :-1]", "tokens[:, 1:] == tokens[:, 1:]"
        ),
        no_blank_at_the_end=edited(
            (ctc._ForwardBackward, "forward"), "totals = ends.logsumexp(dim=1)", "totals = ends[:, 1]"
        ),
        padded_positions_are_read=edited(
            (ctc._ForwardBackward, "forward"),
            "(device_lengths - 1)",
            "torch.full_like(device_lengths, alphas.shape[1] - 1)",
        ),
        beta_includes_its_position=edited(ctc._backward, "emitted[:, position + 1]", "emitted[:, position]"),
        shorter_rows_end_late=edited(ctc._backward, "(position < lengths - 1)", "(position < lengths)"),
    ),
    **_bugs(
        test_ctc_prefix.test_a_wide_beam_equals_enumeration,
        {"seed": 1, "weight": 0.7, "reward": 0.0},
        repetition_needs_no_blank=edited(
            ctc_prefix.prefix_beam_search,
            "before = b if node.length and token == node.token else total",
            "before = total",
        ),
        last_token_is_never_held=edited(
            ctc_prefix.prefix_beam_search, "n=n + scores[node.token] if node.length else NOTHING", "n=NOTHING"
        ),
        one_prefix_in_two_nodes=edited(
            (ctc_prefix._Node, "child"), "self.children.get(token) or _Node(self, token)", "_Node(self, token)"
        ),
        language_model_forgets_the_end=edited(
            (ctc_prefix._Language, "score"),
            "self._totals[node] + self._next[node][self.prior.end]",
            "self._totals[node]",
        ),
    ),
    **_bugs(
        test_ctc_scoring.test_the_steps_of_a_text_add_up_to_both_models,
        JOINT,
        prefix_probabilities_not_divided=edited(
            ctc_scoring.joint_step, "following - prefix[:, None]", "following - 0 * prefix[:, None]"
        ),
        texts_end_anywhere=edited(
            ctc_scoring.joint_step, "following[:, marks.end] = whole.squeeze(1)", "assert whole is not None"
        ),
        weights_of_both_models_swapped=edited(
            ctc_scoring.joint_step,
            "(1 - weight) * output.log_probs + weight * gained",
            "weight * output.log_probs + (1 - weight) * gained",
        ),
        equal_tokens_merge=edited(
            ctc_scoring._extend,
            "(tokens == state.last)[:, None], after_blank, after_any",
            "(tokens == state.last)[:, None], after_any, after_any",
        ),
    ),
    **_bugs(
        test_ctc_scoring.test_beam_search_finds_the_best_text_of_each_recording,
        beams_hear_another_recording=edited(
            ctc_scoring._emitted, ".transpose(1, 2).flatten(0, 1)", ".permute(2, 0, 1).flatten(0, 1)"
        ),
    ),
    **_bugs(
        test_log_mel.test_features_are_those_of_the_definition,
        {"rate": 8000, "length": 1234},
        amplitude_instead_of_power=edited(
            (log_mel.LogMel, "forward"), ".square().sum(dim=-1)", ".square().sum(dim=-1).sqrt()"
        ),
        decimal_logarithm=edited((log_mel.LogMel, "forward"), ".log().transpose", ".log10().transpose"),
        bands_evenly_spaced_in_hertz=edited(
            log_mel.mel_filters, "band_edges(rate, bands)", "np.linspace(LOWEST, rate / 2, bands + 2)"
        ),
        window_of_20_milliseconds=edited(log_mel.window_size, "0.025", "0.020"),
    ),
    **_bugs(
        test_log_mel.test_padding_and_neighbours_change_nothing,
        padding_is_heard=edited(
            (log_mel.LogMel, "forward"),
            "samples.masked_fill(~length_mask(audio.device_lengths, size=samples.shape[1]), 0)",
            "samples",
        ),
    ),
    **_bugs(
        test_log_mel.test_normalised_features_have_mean_0_and_variance_1_within_each_recording,
        padding_in_the_mean=edited(
            (log_mel.Normalise, "forward"),
            "values.masked_fill(~mask, 0).sum(dim=1, keepdim=True) / counts",
            "values.mean(dim=1, keepdim=True)",
        ),
    ),
    **_bugs(
        test_log_mel.test_masks_cover_blocks_within_their_bounds_and_depend_on_the_generator_alone,
        masks_longer_than_their_share=edited(
            spec_augment.spec_augment, "(lengths * config.time_share).long().clamp", "lengths.clamp"
        ),
    ),
    **_bugs(
        test_log_mel.test_recordings_have_masks_of_their_own,
        one_mask_for_all_recordings=edited(
            spec_augment._random_block,
            "torch.rand(2, len(lengths), device=lengths.device)",
            "torch.rand(2, 1, device=lengths.device).expand(2, len(lengths))",
        ),
    ),
    **_bugs(
        test_log_mel.test_what_a_mask_covers_becomes_the_mean,
        {"over": "none"},
        mask_is_louder_than_speech=edited(
            (log_mel.Normalise, "mean_of"), 'if self.over in ("utterance", "global"):', "if self.over:"
        ),
    ),
    **_bugs(
        recognition_laws.test_masks_are_for_training_only,
        augmentation_in_evaluation=edited((speech_inputs.SpeechInputs, "forward"), "if self.training:", "if True:"),
    ),
    **_bugs(
        recognition_laws.test_rows_are_read_alike_in_any_order_and_company,
        {"model": recognisers.build("lstm-ctc-2")},
        convolutions_read_padding=edited(
            (speech_inputs.SpeechInputs, "forward"),
            "values = values * _inside(device_lengths, values)",
            "assert device_lengths is not None",
        ),
    ),
    **_bugs(
        recognition_laws.test_lengths_are_known_on_the_host,
        {"model": recognisers.build("lstm-ctc-2")},
        positions_round_down=edited(
            (speech_inputs.SpeechInputs, "positions"), "-(-lengths // 2)", "(lengths // 2).clamp(min=1)"
        ),
    ),
    **_bugs(
        recognition_laws.test_the_loss_weighs_both_heads_and_fillers_count_nothing,
        loss_weights_swapped=edited(
            recognition.recognition_loss,
            '{"ctc": model.ctc_weight, "attention": 1 - model.ctc_weight}',
            '{"ctc": 1 - model.ctc_weight, "attention": model.ctc_weight}',
        ),
        fillers_have_a_loss=edited(recognition.recognition_loss, "torch.where(is_real, part, 0).sum()", "part.sum()"),
    ),
    **_bugs(
        test_task_judges.test_recordings_are_encoded_once_and_judged_as_if_each_were_alone,
        {"head": "hybrid"},
        validation_encodes_twice=edited(
            recognition.recognition_loss, "model(batch.audio) if heard is None else heard", "model(batch.audio)"
        ),
    ),
    **_bugs(
        test_recognition_preparation.test_speeds_depend_on_row_and_stream_alone_and_fit_the_plan,
        all_rows_at_one_speed=edited(speech_batch._speed, "[*stream, index]", "[*stream, 0]"),
    ),
    **_bugs(
        test_resampling.test_what_the_new_rate_cannot_hold_is_removed,
        resampling_aliases=edited(resampling._filters, "ROLLOFF * min(1.0, up / down)", "ROLLOFF"),
    ),
    **_bugs(
        test_recognition_preparation.test_ctc_needs_a_position_per_token_and_one_between_equal_ones,
        {"samples": 640, "tokens": [4, 4], "fits": False},
        repetitions_need_no_room=edited((recognition_preparation.Fit, "fits"), "len(tokens) + repeated", "len(tokens)"),
    ),
    **_bugs(
        test_ctc_scoring.test_the_score_of_a_prefix_is_that_of_all_texts_that_begin_with_it,
        padding_emits_tokens=edited(
            ctc_scoring.start_joint, "log_probs.masked_fill(outside[..., None], _IMPOSSIBLE)", "log_probs.clone()"
        ),
        equal_tokens_follow=edited(ctc_scoring._following, "(after_blank + _emitted", "(after_any + _emitted"),
    ),
    **_bugs(
        test_recognition_preparation.test_a_faster_recording_is_shorter_and_higher,
        {"speed": 80},
        fast_is_slow=edited(speech_batch._at_speed, "source=speed, target=100", "source=100, target=speed"),
    ),
}

SOFT, HARD = "grid, none, soft", "grid, none, hard"
CAPTIONING = {
    **_bugs(
        test_captioner.test_the_doubly_stochastic_term_is_the_equation_of_the_paper,
        attention_received_by_padding=edited(
            captioner.doubly_stochastic_term, "attention * counts[..., None]", "attention"
        ),
        images_without_captions_count=edited(captioner.doubly_stochastic_term, " * counts.any(dim=1)[:, None]", ""),
        squares_forgotten=edited(captioner.doubly_stochastic_term, "(1 - received) ** 2", "(1 - received).abs()"),
    ),
    **_bugs(
        test_reinforce.test_a_sample_is_credited_with_its_own_and_discounted_later_rewards,
        {"discount": 0.5, "weight": 1.0},
        losses_are_rewarded=edited(
            reinforce.reinforced, "(-losses.detach() - baseline)", "(losses.detach() - baseline)"
        ),
        earlier_rewards_are_credited=edited(
            reinforce.reinforced,
            "offsets >= 0, draws.discount ** offsets.clamp(min=0)",
            "offsets <= 0, draws.discount ** (-offsets).clamp(min=0)",
        ),
        baseline_is_not_subtracted=edited(reinforce.reinforced, "-losses.detach() - baseline", "-losses.detach()"),
    ),
    **_bugs(
        test_reinforce.test_expected_gradient_is_the_gradient_of_the_expected_loss,
        {"family": next(iter(test_reinforce.FAMILIES))},
        rewards_have_a_gradient=edited(reinforce.reinforced, "-losses.detach()", "-losses"),
    ),
    **_bugs(
        test_reinforce.test_the_baseline_moves_towards_the_mean_reward,
        baseline_jumps=edited((reinforce.MovingBaseline, "follow"), "0.1)", "0.9)"),
    ),
    **_bugs(
        test_attention.test_hard_attention_samples_in_training_with_its_weights,
        nothing_is_sampled_in_training=edited(
            (attention.Attention, "_choose"), "positions = draw(shares.detach())", "positions = shares.argmax(dim=-1)"
        ),
    ),
    **_bugs(
        test_attention.test_hard_attention_takes_the_most_likely_position_in_decoding,
        positions_sampled_in_decoding=edited(
            (attention.Attention, "_choose"),
            "one_hot(weights.argmax(dim=-1), like=weights)",
            "one_hot(draw(weights), like=weights)",
        ),
    ),
    **_bugs(
        test_captions.test_attention_to_one_cell_is_inside_or_outside,
        rows_and_columns_of_a_box_swapped=edited(
            attention_boxes.cell_shares,
            "np.outer(overlap(box.top, box.bottom), overlap(box.left, box.right))",
            "np.outer(overlap(box.left, box.right), overlap(box.top, box.bottom))",
        ),
        most_attended_cell_transposed=edited(
            attention_boxes.named_attention, "row, column = divmod", "column, row = divmod"
        ),
    ),
    **_bugs(
        test_captions.test_shares_of_cells_add_up_to_the_area_of_the_box,
        cells_at_the_edge_count_whole=edited(
            attention_boxes.cell_shares, "return widths * side", "return (widths > 0) * 1.0"
        ),
    ),
    **_bugs(
        test_captions.test_attention_is_the_mean_over_words_relative_to_its_sum,
        first_word_only=edited(attention_boxes.named_attention, "attention.mean(axis=0)", "attention[0]"),
        attention_not_divided_by_its_sum=edited(attention_boxes.named_attention, ".sum() / total) if", ".sum()) if"),
    ),
    **_bugs(
        test_captions.test_pieces_of_a_span_share_characters_with_it,
        {"span": (2, 5), "pieces": [1]},
        neighbours_of_a_span_belong_to_it=edited(
            attention_boxes.pieces_in_span, "start < span[1] and end > span[0]", "start <= span[1] and end >= span[0]"
        ),
    ),
    **_bugs(
        test_captioner_engine.test_boxes_move_with_the_image,
        box_ignores_the_border=edited(captioner_boxes.square_box, "(place.top + box.top * down)", "(box.top * down)"),
    ),
    **_bugs(
        test_captioner.test_positions_tell_rows_and_columns_apart,
        rows_have_no_positions=edited(images._grid_positions, "vertical = sinusoids(", "vertical = 0 * sinusoids("),
    ),
    **_bugs(
        test_captioner.test_patches_are_products_of_their_pixels,
        grid_read_by_columns=edited(
            (images.ImageInputs, "forward"),
            "grid.flatten(2).transpose(1, 2)",
            "grid.transpose(2, 3).flatten(2).transpose(1, 2)",
        ),
    ),
    **_bugs(
        test_caption_batch.test_captions_follow_each_other_in_turn,
        same_caption_in_every_epoch=edited(
            caption_batch._chosen, "(indices.astype(np.int64) + turn)", "indices.astype(np.int64)"
        ),
        captions_begin_one_short=edited(
            caption_batch._chosen,
            "lengths.values[at : at + count].sum()",
            "lengths.values[at : at + max(0, count - 1)].sum()",
        ),
        weight_without_ends=edited(
            caption_batch.collate_captions, "turn=turn)[1] + 1).sum())", "turn=turn)[1]).sum())"
        ),
    ),
    **_bugs(
        captioning_laws.test_an_image_is_read_alike_in_any_order_and_company,
        {"model": captioners.build(SOFT)},
        images_share_their_mean=edited(
            (images.GridEncoder, "forward"),
            "read.values.mean(dim=1)[:, None]",
            "read.values.mean(dim=(0, 1)).expand(len(read.values), 1, -1)",
        ),
    ),
    **_bugs(
        test_attention.test_rows_are_sampled_apart,
        one_draw_for_all_images=edited(
            attention.draw, "torch.empty_like(shares).exponential_()", "torch.empty_like(shares[:1]).exponential_()"
        ),
    ),
}

NEAREST = {"block": 7, "top": 5}
EMBEDDING = {
    **_bugs(
        test_contrastive.test_the_loss_is_the_formula,
        {"temperature": 0.3, "margin": 0.25, "excludes": True},
        one_direction_twice=edited(
            contrastive.contrastive_losses,
            "torch.logsumexp(scores, dim=1) + torch.logsumexp(scores, dim=0)",
            "2 * torch.logsumexp(scores, dim=1)",
        ),
        margin_on_the_negatives=edited(
            contrastive.contrastive_losses,
            "torch.where(is_own, similarities - margin, similarities)",
            "torch.where(is_own, similarities, similarities - margin)",
        ),
        temperature_multiplies=edited(
            contrastive.contrastive_losses, "similarities) / temperature", "similarities) * temperature"
        ),
        pair_excludes_itself=edited(contrastive.contrastive_losses, "excluded & ~is_own, -torch.inf", "excluded, -1e9"),
    ),
    **_bugs(
        test_embedding.test_equal_sentences_and_fillers_are_no_negatives,
        both_sides_must_be_equal=edited(
            (sentence_pair_batch.SentencePairBatch, "excluded"), ".any(dim=0)", ".all(dim=0)"
        ),
        fillers_are_negatives=edited(
            (sentence_pair_batch.SentencePairBatch, "excluded"),
            "is_equal | (self.alike[0] < 0) | (self.alike[0] < 0)[:, None]",
            "is_equal",
        ),
        equal_sentences_have_their_own_numbers=edited(
            sentence_pair_batch.collate_sentence_pairs,
            "_numbers(store[name], everything.indices)",
            "np.arange(len(everything.indices))",
        ),
    ),
    **_bugs(
        test_embedding.test_the_gradients_of_all_ranks_add_up_to_that_of_the_batch,
        {"ranks": 2},
        rows_of_ranks_one_after_the_other=edited(
            embedding.gather_rows, "torch.stack(others, dim=1)", "torch.stack(others, dim=0)"
        ),
        ranks_report_the_loss_of_all=edited(
            (embedding.Embedding, "loss"),
            "losses.detach()[batch.shard.rank :: batch.shard.ranks].sum()",
            "losses.detach().sum()",
        ),
    ),
    **_bugs(
        sentence_laws.test_padding_affects_nothing,
        {"model": sentence_encoders.build("lstm-mean"), "side": "source"},
        mean_over_padding=edited(pooling.mean_pooling, "mask.sum(dim=1, keepdim=True).clamp(min=1)", "values.shape[1]"),
    ),
    **_bugs(
        sentence_laws.test_padding_affects_nothing,
        {"model": sentence_encoders.build("lstm-attention"), "side": "target"},
        attention_sees_padding=edited(pooling._softmax, ".masked_fill(~mask, -torch.inf)", ""),
    ),
    **_bugs(
        test_sentence_vectors.test_the_last_vector_of_an_encoder_without_states_is_that_of_the_end_mark,
        {"family": "transformer"},
        first_vector_instead_of_last=edited(
            pooling.last_pooling, "mask.sum(dim=1)", "torch.ones_like(mask.sum(dim=1))"
        ),
    ),
    **_bugs(
        sentence_laws.test_rows_are_read_alike_in_any_order_and_company,
        {"model": sentence_encoders.build("transformer-mean")},
        normalised_over_the_batch=edited(
            (Tower, "forward"), "F.normalize(vectors, dim=-1)", "F.normalize(vectors, dim=0)"
        ),
    ),
    **_bugs(
        sentence_laws.test_each_side_has_its_encoder,
        sides_swapped=edited((SentenceEncoderModel, "tower"), 'side == "source"', 'side != "source"'),
    ),
    **_bugs(
        test_retrieval.test_ranks_are_counted_in_both_directions,
        equal_texts_are_wrong_answers=edited(retrieval._ranks, "(is_before & is_other)", "is_before"),
        one_direction_only=edited(
            retrieval.partner_ranks,
            "_ranks(target, source, numbers=_numbers(sources)",
            "_ranks(source, target, numbers=_numbers(sources)",
        ),
    ),
    **_bugs(
        test_retrieval.test_equal_vectors_find_nothing_by_luck,
        lucky_ties=edited(
            retrieval._ranks, "(scores > own) | ((scores == own) & (columns < rows[:, None]))", "scores > own"
        ),
    ),
    **_bugs(
        test_retrieval.test_ranks_are_counted_in_both_directions,
        every_block_starts_at_the_first_pair=edited(
            retrieval._ranks, "columns[start : start + QUERIES]", "columns[: len(scores)]"
        ),
    ),
    **_bugs(
        test_task_judges.test_equal_sentences_are_no_negatives_in_validation_either,
        validation_excludes_whole_duplicates_only=edited(retrieval.equal_texts, "np.logical_or", "np.logical_and"),
    ),
    **_bugs(
        test_nearest.test_the_nearest_are_those_of_a_plain_sort,
        NEAREST,
        blocks_forget_where_they_start=edited(nearest._nearest, "start + columns", "columns"),
    ),
    **_bugs(
        test_nearest.test_normalised_vectors_have_length_one_and_zero_stays_zero,
        lengths_not_squared=edited(nearest.normalised, "np.sqrt((exact * exact)", "(np.abs(exact)"),
    ),
    **_bugs(
        test_nearest.test_the_nearest_are_those_of_a_plain_sort,
        {"block": 1000, "top": 5},
        last_of_equals_come_first=edited(
            nearest._largest,
            "is_least.cumsum(axis=1) <= missing",
            "is_least[:, ::-1].cumsum(axis=1)[:, ::-1] <= missing",
        ),
    ),
}

TASK_BUGS: Mapping[str, Mapping[str, TaskBug]] = {
    "hidden Markov": HIDDEN_MARKOV,
    "phrases": PHRASES,
    "recommendation": RECOMMENDATION,
    "speech": SPEECH,
    "captioning": CAPTIONING,
    "embedding": EMBEDDING,
}
